"""Token budgets of windows, the shares of sections, and the limits of known models."""

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Literal, get_args

from jiyi.errors import BadBudget
from jiyi.records.checks import check_tokens, explain_type_errors, short_repr

__all__ = [
    "ASSUMED", "PRESETS", "RULES_OF_THUMB", "SECTIONS", "SHARED_SECTIONS", "SHARES", "Allocation", "Budget",
    "ModelSize", "Section", "model_size", "model_sizes",
]  # fmt: skip

_VERSION_SUFFIX = re.compile(r"(?:[-@]\d{4}-?\d{2}-?\d{2}|[-:]latest)$")

Section = Literal[
    "system", "skills", "profile", "summary", "history", "task", "knowledge", "episodes", "recalled", "input"
]
"""The part of the window that a block belongs to."""

SECTIONS: tuple[Section, ...] = get_args(Section)
"""All sections in the order the window shows them: what changes least comes first."""

SHARES: Mapping[Section, float] = MappingProxyType(
    {"task": 0.10, "knowledge": 0.10, "episodes": 0.15, "recalled": 0.30, "history": 0.35}
)
"""Default shares of the tokens left by the other sections. What a section does not use goes to the rest."""

SHARED_SECTIONS: tuple[Section, ...] = tuple(SHARES)
"""The sections that share the tokens left by the others."""

RULES_OF_THUMB: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "system": (0.05, 0.10),
        "knowledge": (0.20, 0.40),
        "history": (0.20, 0.30),
        "input": (0.05, 0.15),
        "output": (0.20, 0.30),
    }
)
"""Usual shares of a context window, from and to; see `Allocation.unusual`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """The limits of a model, in tokens of its own vocabulary."""

    context_window: int  # input and output together
    max_output_tokens: int  # of one reply
    source: str = ""  # URL of the page with these limits; "" if assumed
    read: date | None = None  # when that page was read

    @property
    def reserve(self) -> int:
        """Tokens to reserve for a reply: the longest possible one, at most a quarter of the window."""
        return min(self.max_output_tokens, self.context_window // 4)


ASSUMED = ModelSize(context_window=8_192, max_output_tokens=2_048)
"""The limits assumed for a model that is not in the table."""


@cache
def model_sizes() -> dict[str, ModelSize]:
    """Return the table of known models, by name."""
    text = (files(__package__) / "models.toml").read_text("utf-8")
    return {name: ModelSize(**size) for name, size in tomllib.loads(text).items()}


def model_size(model: str) -> ModelSize | None:
    """Return the size of a model, None if it is not in the table.

    A provider before the name ("openai/gpt-4o"), a date or "latest" after it
    ("gpt-4o-2024-08-06", "mistral-large-latest") and case are ignored.
    """
    known = model_sizes()
    name = model.strip().lower()
    name = name if name in known else name.rpartition("/")[2]
    return known.get(name) or known.get(_VERSION_SUFFIX.sub("", name))


@explain_type_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """How a task type divides a context window; only the proportions of the numbers count.

    What a part does not use goes to the others when a window is built. With an ``input`` of 0 the current
    message takes what it needs before knowledge and history are divided. Raises `BadBudget` for a part that
    is negative or no number, or if nothing is left next to the output.
    """

    system: float  # system messages, skills and the summary
    knowledge: float  # everything retrieved: task, knowledge, episodes and recalled messages
    history: float  # the conversation's messages
    output: float  # reserved for the reply
    input: float = 0  # the current message

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not math.isfinite(value) or value < 0:
                raise BadBudget(f"the allocation's {name}={value!r} must be a number, finite and at least 0")
        if self.whole <= self.output:
            raise BadBudget("the allocation leaves nothing for the input; give system, knowledge or history")

    @property
    def whole(self) -> float:
        """The sum of all parts."""
        return self.system + self.knowledge + self.history + self.output + self.input

    @property
    def shares(self) -> dict[Section, float]:
        """The shares of a `Budget`, 0..1; task, knowledge, episodes and recalled share as in `SHARES`."""
        competing = self.knowledge + self.history
        if competing == 0:
            return {}
        retrieved = {section: share for section, share in SHARES.items() if section != "history"}
        part = self.knowledge / competing / sum(retrieved.values())
        return {s: share * part for s, share in retrieved.items()} | {"history": self.history / competing}

    def unusual(self) -> tuple[str, ...]:
        """Return a line for each part outside `RULES_OF_THUMB`, as a hint; parts of 0 are skipped."""
        lines: list[str] = []
        for name, value in asdict(self).items():
            low, high = RULES_OF_THUMB[name]
            share = value / self.whole
            if value and not low <= share <= high:
                lines.append(f"{name} takes {share:.0%} of the window; {low:.0%} to {high:.0%} is usual")
        return tuple(lines)


PRESETS: Mapping[str, Allocation] = MappingProxyType(
    {
        "code_generation": Allocation(system=500, knowledge=3_000, history=1_000, output=3_500),
        "conversation": Allocation(system=500, knowledge=1_000, history=4_000, output=2_500),
        "analysis": Allocation(system=500, knowledge=4_000, history=1_000, output=2_500),
    }
)
"""Allocations by the kind of task, of 8,000 tokens; see `Budget.for_task`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The size of a window in tokens.

    ``max_input_tokens`` limits everything that is sent; ``max_output_tokens`` is kept for the reply as well.
    For a model that counts both together use `of_window`, or `for_task` to divide it by task type.

    Raises `BadBudget`: a number is negative or not whole, the input is zero, or shares are negative, sum to
    more than 1, or name a section that does not compete.
    """

    max_input_tokens: int  # everything that is sent, message overhead included
    max_output_tokens: int = 0  # reserved for the reply
    shares: Mapping[Section, float] = field(default_factory=lambda: SHARES)  # section -> 0..1
    profile_share: float = 0.1  # the largest part of the input for the profile; 0: none
    note: str = ""  # what had to be assumed, for a window's report

    def __post_init__(self) -> None:
        check_tokens("max_input_tokens", self.max_input_tokens, 1, BadBudget)
        check_tokens("max_output_tokens", self.max_output_tokens, 0, BadBudget)
        if not isinstance(self.shares, Mapping):
            raise BadBudget(f"shares is a dict of section and share, not {type(self.shares).__name__}")
        object.__setattr__(self, "shares", dict(self.shares))
        for section, share in self.shares.items():
            if section not in SHARED_SECTIONS:
                raise BadBudget(f"{short_repr(section)} has no share; sharing: {', '.join(SHARED_SECTIONS)}")
            if not isinstance(share, int | float) or not 0 <= share <= 1:
                raise BadBudget(f"the share of {section} is {short_repr(share)}, not a number from 0 to 1")
        share = self.profile_share
        if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share <= 1:
            raise BadBudget(f"profile_share={short_repr(share)} must be a number from 0 to 1")
        if sum(self.shares.values()) > 1 + 1e-9:
            raise BadBudget(f"the shares sum to {sum(self.shares.values()):.2f}; at most 1 can be given away")

    @classmethod
    def of_window(cls, context_window: int, max_output_tokens: int) -> "Budget":
        """Return the budget of a model whose context window holds input and output together."""
        if context_window <= max_output_tokens:
            size = f"a context window of {context_window}"
            raise BadBudget(f"{size} has no room beside {max_output_tokens} for output")
        return cls(max_input_tokens=context_window - max_output_tokens, max_output_tokens=max_output_tokens)

    @classmethod
    def for_model(cls, model: str, max_output_tokens: int | None = None) -> "Budget":
        """Return the budget of a well-known chat model, such as "gpt-4o"; see `model_size`.

        The longest reply of the model is reserved, at most a quarter of its window, or ``max_output_tokens``.
        For an unknown model `ASSUMED` is assumed, and ``note`` says so. Raises `BadBudget` if ``model`` is
        not text, or there is no room beside ``max_output_tokens``.
        """
        if not isinstance(model, str):
            raise BadBudget(f"a model is named by text, not {type(model).__name__}")
        known = model_size(model)
        limits = known or ASSUMED
        reserved = limits.reserve if max_output_tokens is None else max_output_tokens
        budget = cls.of_window(limits.context_window, reserved)
        if known is not None:
            return budget
        window = f"a context window of {limits.context_window:,} tokens was assumed"
        return replace(budget, note=f"the limits of the model {model!r} are not known: {window}")

    @classmethod
    def for_task(cls, name: str, total: int, presets: Mapping[str, Allocation] = PRESETS) -> "Budget":
        """Return the budget of a task type in a window of ``total`` tokens, input and output together.

        The allocation's output is reserved, rounded to whole tokens, and its knowledge and history become
        `shares`. Own ``presets`` are given with jiyi's as ``{**PRESETS, "support": Allocation(...)}``. Raises
        `BadBudget`: no preset has this name, or the window is too small for it.
        """
        chosen = _find_preset(name, presets)
        check_tokens("total", total, error=BadBudget)
        output = round(total * chosen.output / chosen.whole)
        if output >= total:
            raise BadBudget(f"a window of {total} tokens has no room beside the output of {name!r}")
        return cls(max_input_tokens=total - output, max_output_tokens=output, shares=chosen.shares)

    def shared_as(self, name: str, presets: Mapping[str, Allocation] = PRESETS) -> "Budget":
        """Return this budget with the shares of a task type; `BadBudget` if no preset has this name."""
        return replace(self, shares=_find_preset(name, presets).shares)


def _find_preset(name: str, presets: Mapping[str, Allocation]) -> Allocation:
    if name not in presets:
        raise BadBudget(f"no budget preset named {name!r}; there are {', '.join(presets) or 'none'}")
    return presets[name]
