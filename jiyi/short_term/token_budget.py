"""The token budget: the newest messages that fit stay."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jiyi.errors import BadBudget, BudgetTooSmall
from jiyi.records import Message
from jiyi.short_term.candidates import Candidates
from jiyi.short_term.policy import Kept
from jiyi.short_term.turns import Atom
from jiyi.text import TokenCounter, counter_for

__all__ = ["TokenBudget"]


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """A `Policy` that keeps the newest messages within a number of tokens.

    - ``counter.count_all(kept)`` is at most ``max_tokens``, message overhead and the opening
      of the reply included; where a ``budget`` is given too, the smaller one holds.
    - Whole atoms leave, the oldest first. What stays is one newest stretch; only an atom
      that would not fit even alone is passed over.
    - System and pinned messages stay. With ``keep_last`` the newest sound atom without a
      system message stays too, so that something is left to answer.
    - Broken atoms leave, pinned or not.
    - Messages that carry a count of this counter are not counted again, and those older
      than the stretch are not counted at all.

    Raises:
        BadBudget: ``max_tokens`` or ``budget`` is not a whole number of at least 1.
        BudgetTooSmall: what must stay takes more than the budget (when called).
    """

    max_tokens: int  # tokens in all
    counter: TokenCounter = field(default_factory=counter_for)
    keep_last: bool = True  # the newest atom stays in any case

    def __post_init__(self) -> None:
        """Refuse what cannot be a budget."""
        _check("max_tokens", self.max_tokens)

    def __call__(self, messages: Sequence[Message], budget: int | None = None) -> Kept:
        """Decide for the smaller of ``max_tokens`` and ``budget``."""
        if budget is not None:
            _check("budget", budget)
        limit = self.max_tokens if budget is None else min(self.max_tokens, budget)
        candidates = Candidates.of(messages)
        last = _last(candidates) if self.keep_last else ()
        room = limit - self._needed(candidates, last, limit)
        free, full = room, False
        leaving: dict[int, str] = {}
        for atom in reversed(candidates.optional[: len(candidates.optional) - len(last)]):
            tokens = 0 if full else self._count(candidates, atom)
            if tokens > room:
                reason = f"with what belongs to it larger than the {room:,} tokens there are"
            elif full or tokens > free:
                full, reason = True, f"over the budget of {limit:,} tokens"
            else:
                free -= tokens
                continue
            leaving |= dict.fromkeys(atom.indices, reason)
        return candidates.without(leaving)

    def _needed(self, candidates: Candidates, last: tuple[Atom, ...], limit: int) -> int:
        """Return the tokens of what must stay, or say that it does not fit."""
        stay = (*candidates.required, *last)
        needed = self.counter.count_all(()) + sum(self._count(candidates, atom) for atom in stay)
        if needed > limit:
            system = sum(candidates.messages[a.first].role == "system" for a in candidates.required)
            raise BudgetTooSmall(
                f"what must stay (system messages: {system}, pinned: {len(candidates.required) - system}, "
                f"newest: {len(last)}) takes {needed} tokens, {needed - limit} more than the budget of "
                f"{limit}; raise the budget, shorten these messages, or unpin some",
                needed=needed,
                available=limit,
            )
        return needed

    def _count(self, candidates: Candidates, atom: Atom) -> int:
        return sum(self.counter.count(candidates.messages[i]) for i in atom.indices)


def _last(candidates: Candidates) -> tuple[Atom, ...]:
    """Return the newest optional atom, nothing where a pinned one is newer and stays anyway."""
    last = candidates.optional[-1:]
    stays = (a for a in candidates.required if candidates.messages[a.first].role != "system")
    return () if last and any(a.first > last[0].first for a in stays) else last


def _check(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadBudget(f"{name}={value!r} must be a whole number of tokens, at least 1")
