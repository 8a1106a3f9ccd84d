"""How many tokens a window may take, and how they are shared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from jiyi.errors import BadBudget
from jiyi.records.block import Section

__all__ = ["SHARED_SECTIONS", "SHARES", "Budget"]

SHARED_SECTIONS: tuple[Section, ...] = ("task", "knowledge", "episodes", "recalled", "history")
"""The sections that compete; system and input are taken as they are, before the sharing."""

SHARES: Mapping[Section, float] = MappingProxyType(
    {"task": 0.10, "knowledge": 0.10, "episodes": 0.15, "recalled": 0.30, "history": 0.35}
)
"""Default shares of what system and input leave over. What a section does not use flows to the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The size of a window in tokens.

    ``max_input_tokens`` bounds everything that is sent; ``max_output_tokens`` is kept free
    for the reply on top of it. For a model that counts both together use `of_window`.

    Raises:
        BadBudget: a number is negative or not whole, the input is zero, or shares are
            negative, sum to more than 1, or name a section that does not compete.
    """

    max_input_tokens: int  # everything that is sent, message overhead included
    max_output_tokens: int = 0  # kept free for the reply
    shares: Mapping[Section, float] = field(default_factory=lambda: SHARES)  # section -> 0..1

    def __post_init__(self) -> None:
        """Refuse what cannot be a budget."""
        for name, least in (("max_input_tokens", 1), ("max_output_tokens", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise BadBudget(f"{name}={value!r} must be a whole number of tokens")
            if value < least:
                raise BadBudget(f"{name}={value} must be at least {least}")
        if not isinstance(self.shares, Mapping):
            raise BadBudget(f"shares is a dict of section and share, not {type(self.shares).__name__}")
        object.__setattr__(self, "shares", dict(self.shares))
        for section, share in self.shares.items():
            if section not in SHARED_SECTIONS:
                raise BadBudget(f"no share for {section!r}; sharing are {', '.join(SHARED_SECTIONS)}")
            if not isinstance(share, int | float) or not 0 <= share <= 1:
                raise BadBudget(f"the share of {section} is {share!r}; it must be a number from 0 to 1")
        if sum(self.shares.values()) > 1 + 1e-9:
            raise BadBudget(f"the shares sum to {sum(self.shares.values()):.2f}; at most 1 can be given away")

    @classmethod
    def of_window(cls, context_window: int, max_output_tokens: int) -> "Budget":
        """Return the budget of a model whose context window holds input and output together."""
        if context_window <= max_output_tokens:
            raise BadBudget(
                f"a context window of {context_window} has no room beside {max_output_tokens} for output"
            )
        return cls(max_input_tokens=context_window - max_output_tokens, max_output_tokens=max_output_tokens)
