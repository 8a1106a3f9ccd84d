"""The sliding window: the last turns stay."""

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jiyi.records import Message
from jiyi.short_term.candidates import Candidates
from jiyi.short_term.given import as_given
from jiyi.short_term.limit import check_count
from jiyi.short_term.policy import Kept
from jiyi.short_term.turns import turns

__all__ = ["SlidingWindow"]

_TURNS = 10
_COUNTED = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """A `Policy` that keeps the last ``k`` turns, or the last ``max_messages`` messages.

    - With ``k``, or neither of the two (10 turns then), turns count. With ``max_messages``
      alone, user and assistant messages count, wherever turns begin.
    - System and pinned messages stay on top of that; neither limit counts them.
    - With both, at most ``max_messages`` user and assistant messages of the turns stay. Whole turns
      leave first, the oldest first. Where the newest turn alone is over, its oldest atoms
      leave, but the user message that opens it stays.
    - Tool results go and stay with their call and are not counted.
    - Broken atoms leave, pinned or not; they make no turn.
    - It does not look at tokens: the ``budget`` argument is ignored. Follow it with
      `TokenBudget` where tokens matter.
    - What it keeps, it keeps whole when asked again.

    Raises:
        SettingsError: ``k`` or ``max_messages`` is not a whole number of at least 1.
    """

    k: int | None = None  # turns; without either limit 10
    max_messages: int | None = None  # user and assistant messages; None for no such limit

    def __post_init__(self) -> None:
        """Refuse a window in which nothing could stay."""
        if self.k is None and self.max_messages is None:
            object.__setattr__(self, "k", _TURNS)
        for name in ("k", "max_messages"):
            if (value := getattr(self, name)) is not None:
                check_count(name, value)

    @as_given
    def __call__(self, messages: Sequence[Message], budget: int | None = None) -> Kept:  # noqa: ARG002
        """Decide; ``budget`` is there because a `Policy` takes one."""
        candidates = Candidates.of(messages)
        if self.k is None:
            old = candidates.optional[: -(self.max_messages or 0)]
            return candidates.without(dict.fromkeys((i for a in old for i in a.indices), self._over))
        leaving: dict[int, str] = {}
        # Dropping a call that had joined turns parts them again, so the limits are looked at
        # anew until nothing leaves; nearly always the second look is the last.
        while went := self._leaving(candidates, leaving):
            leaving |= went
        return candidates.without(leaving)

    @property
    def _over(self) -> str:
        return f"older than the last {self.max_messages} user and assistant messages"

    def _leaving(self, candidates: Candidates, gone: dict[int, str]) -> dict[int, str]:
        """Return what leaves when ``gone`` and the broken atoms are out already."""
        choosable = {i for atom in candidates.optional for i in atom.indices if i not in gone}
        held = {i for atom in candidates.required for i in atom.indices}
        present = [i for i in range(len(candidates.messages)) if i in choosable or i in held]
        rounds = [[present[i] for i in places] for places in turns([candidates.messages[i] for i in present])]
        old = max(0, len(rounds) - (self.k or 0))
        went = {i: f"older than the last {self.k} turns" for places in rounds[:old] for i in places}
        if self.max_messages is not None:
            went |= dict.fromkeys(self._over_limit(candidates, rounds[old:], choosable), self._over)
        return {i: why for i, why in went.items() if i in choosable}

    def _over_limit(
        self, candidates: Candidates, rounds: list[list[int]], choosable: set[int]
    ) -> Iterator[int]:
        messages, newest = candidates.messages, len(rounds) - 1
        free = self.max_messages or 0
        number = newest
        while number >= 0:
            free -= sum(messages[i].role in _COUNTED for i in rounds[number] if i in choosable)
            if free < 0:
                break
            number -= 1
        for places in rounds[: number + (number < newest)]:
            yield from places
        if rounds and number == newest:
            yield from self._oldest_inside(candidates, rounds[newest], choosable, -free)

    def _oldest_inside(
        self, candidates: Candidates, turn: list[int], choosable: set[int], over: int
    ) -> Iterator[int]:
        messages = candidates.messages
        opener = turn[0] if messages[turn[0]].role == "user" else None
        inside = choosable.intersection(turn) - {opener}
        # Every optional atom has exactly one user or assistant message.
        oldest = [atom for atom in candidates.optional if atom.first in inside][:over]
        # Calls that had joined several turns into this one go first: without them the turns
        # part, and the older of them can leave whole.
        users = [i for i in turn if messages[i].role == "user"]
        joining = [a for a in oldest if bisect(users, a.first) < bisect(users, a.indices[-1])]
        for atom in joining or oldest:
            yield from atom.indices
