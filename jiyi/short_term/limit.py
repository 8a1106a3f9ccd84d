"""What policies with a limit in tokens share: the limit, what must stay, and what is counted."""

from collections.abc import Iterable
from dataclasses import dataclass

from jiyi.errors import BadBudget, BudgetTooSmall, SettingsError
from jiyi.short_term.candidates import Candidates
from jiyi.short_term.turns import Atom
from jiyi.text import TokenCounter

__all__ = ["DEFAULT_TOKENS", "Limit", "check_count", "check_limit"]

DEFAULT_TOKENS = 4_000
"""Tokens of a policy that is given no limit."""


def check_limit(name: str, value: object) -> None:
    """Refuse what cannot be a number of tokens.

    Raises:
        BadBudget: it is not a whole number of at least 1.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadBudget(f"{name}={value!r} must be a whole number of tokens, at least 1")


def check_count(name: str, value: object) -> None:
    """Refuse what cannot be a number of messages or turns.

    Raises:
        SettingsError: it is not a whole number of at least 1.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SettingsError(f"{name}={value!r} must be a whole number of at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A conversation under a limit: what must stay, what that leaves, and what may leave."""

    candidates: Candidates
    tokens: int  # in all
    room: int  # beside what must stay and the opening of the reply
    optional: tuple[Atom, ...]  # may leave, oldest first
    counter: TokenCounter

    @classmethod
    def of(cls, candidates: Candidates, tokens: int, counter: TokenCounter, *, keep_last: bool) -> "Limit":
        """Look at what must stay: required atoms and, with ``keep_last``, the newest sound one.

        Raises:
            BudgetTooSmall: that takes more than ``tokens``.
        """
        last = _last(candidates) if keep_last else ()
        stay = (*candidates.required, *last)
        needed = counter.count_all(()) + _count(candidates, stay, counter)
        if needed > tokens:
            system = sum(candidates.messages[a.first].role == "system" for a in candidates.required)
            raise BudgetTooSmall(
                f"what must stay (system messages: {system}, pinned: {len(candidates.required) - system}, "
                f"newest: {len(last)}) takes {needed} tokens, {needed - tokens} more than the budget of "
                f"{tokens}; raise the budget, shorten these messages, or unpin some",
                needed=needed,
                available=tokens,
            )
        return cls(
            candidates=candidates,
            tokens=tokens,
            room=tokens - needed,
            optional=candidates.optional[: len(candidates.optional) - len(last)],
            counter=counter,
        )

    @property
    def over(self) -> str:
        """Why something left: it is over the limit."""
        return f"over the budget of {self.tokens:,} tokens"

    @property
    def too_large(self) -> str:
        """Why an atom left that would not fit even if all others did."""
        return f"with what belongs to it larger than the {self.room:,} tokens there are"

    def count(self, atom: Atom) -> int:
        """Return the tokens of an atom, each message with its overhead."""
        return _count(self.candidates, (atom,), self.counter)


def _count(candidates: Candidates, atoms: Iterable[Atom], counter: TokenCounter) -> int:
    return sum(counter.count(candidates.messages[i]) for atom in atoms for i in atom.indices)


def _last(candidates: Candidates) -> tuple[Atom, ...]:
    """Return the newest optional atom, nothing where a pinned one is newer and stays anyway."""
    last = candidates.optional[-1:]
    stays = (a for a in candidates.required if candidates.messages[a.first].role != "system")
    return () if last and any(a.first > last[0].first for a in stays) else last
