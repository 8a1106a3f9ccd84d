"""The token budget: the newest messages that fit stay."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jiyi.errors import BadBudget
from jiyi.records import Message
from jiyi.short_term.candidates import Candidates
from jiyi.short_term.given import as_given
from jiyi.short_term.limit import DEFAULT_TOKENS, Limit, check_limit
from jiyi.short_term.policy import Kept
from jiyi.text import TokenCounter, counter_for

__all__ = ["TokenBudget"]


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """A `Policy` that keeps the newest messages within a number of tokens.

    - ``counter.count_all(kept)`` is at most ``max_tokens``, message overhead and the opening
      of the reply included; where a ``budget`` is given too, the smaller one holds.
    - Whole atoms leave, the oldest first: no message is cut, so no JSON and no code is torn.
      What stays is one newest stretch; only an atom that would not fit even alone is passed over.
    - System and pinned messages stay. With ``keep_last`` the newest sound atom without a
      system message stays too, so that something is left to answer.
    - Broken atoms leave, pinned or not.
    - Messages that carry a count of this counter are not counted again, and those older
      than the stretch are not counted at all.

    Raises:
        BadBudget: ``max_tokens`` or ``budget`` is not a whole number of at least 1.
        BudgetTooSmall: what must stay takes more than the budget (when called).
    """

    max_tokens: int = DEFAULT_TOKENS  # tokens in all
    counter: TokenCounter = field(default_factory=counter_for)
    keep_last: bool = True  # the newest atom stays in any case

    def __post_init__(self) -> None:
        """Refuse what cannot be a budget."""
        check_limit("max_tokens", self.max_tokens)

    @classmethod
    def of_window(
        cls,
        window: int,
        *,
        fraction: float = 0.9,
        max_output_tokens: int = 0,
        counter: TokenCounter | None = None,
        keep_last: bool = True,
    ) -> "TokenBudget":
        """Return the budget that is a fraction of a model's window.

        Args:
            window: tokens the model takes, input and output together, such as 128_000.
            fraction: of what the reply leaves; the rest is a margin for what cannot be counted.
            max_output_tokens: kept free for the reply.
            counter: counts as the model does; as gpt-4o by default.
            keep_last: the newest atom stays in any case.

        Raises:
            BadBudget: these are no numbers of tokens, ``fraction`` is not over 0 and at most 1,
                or nothing is left for the messages.
        """
        check_limit("window", window)
        if max_output_tokens != 0:
            check_limit("max_output_tokens", max_output_tokens)
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction <= 1:
            raise BadBudget(f"fraction={fraction!r} must be a number over 0 and at most 1")
        tokens = int(fraction * (window - max_output_tokens) + 1e-6)
        if tokens < 1:
            raise BadBudget(
                f"a window of {window:,} tokens with {max_output_tokens:,} for the reply leaves none "
                "for messages; lower max_output_tokens"
            )
        return cls(tokens, counter or counter_for(), keep_last)

    @as_given
    def __call__(self, messages: Sequence[Message], budget: int | None = None) -> Kept:
        """Decide for the smaller of ``max_tokens`` and ``budget``."""
        if budget is not None:
            check_limit("budget", budget)
        tokens = self.max_tokens if budget is None else min(self.max_tokens, budget)
        candidates = Candidates.of(messages)
        limit = Limit.of(candidates, tokens, self.counter, keep_last=self.keep_last)
        free, full = limit.room, False
        leaving: dict[int, str] = {}
        for atom in reversed(limit.optional):
            size = 0 if full else limit.count(atom)
            if size > limit.room:
                reason = limit.too_large
            elif full or size > free:
                full, reason = True, limit.over
            else:
                free -= size
                continue
            leaving |= dict.fromkeys(atom.indices, reason)
        return candidates.without(leaving)
