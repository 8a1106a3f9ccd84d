"""Policies: the last turns, the newest that fit, and several policies in a row."""

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from jiyi.errors import BadBudget, InputError
from jiyi.records import Message
from jiyi.records.atoms import turns
from jiyi.short_term.policy import (
    DEFAULT_TOKENS,
    Candidates,
    Dropped,
    Kept,
    Limit,
    Policy,
    as_given,
    check_count,
    check_tokens,
)
from jiyi.text import TokenCounter, counter_for

__all__ = ["Pipeline", "SlidingWindow", "TokenBudget"]

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
        # again until nothing leaves; nearly always the second look is the last.
        while went := self._leaving(candidates, leaving):
            leaving |= went
        return candidates.without(leaving)

    @property
    def _over(self) -> str:
        return f"older than the last {self.max_messages} user and assistant messages"

    def _leaving(self, candidates: Candidates, gone: dict[int, str]) -> dict[int, str]:
        """Return what leaves when ``gone`` and the broken atoms are out already."""
        choosable = {i for atom in candidates.optional for i in atom.indices if i not in gone}
        held = candidates.held
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
        check_tokens("max_tokens", self.max_tokens)

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
        check_tokens("window", window)
        if max_output_tokens != 0:
            check_tokens("max_output_tokens", max_output_tokens)
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
            check_tokens("budget", budget)
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


@dataclass(frozen=True, slots=True, init=False)
class Pipeline:
    """A `Policy` made of policies: each decides about what those to its left kept.

    - What left is given in the order of the conversation, each with the reason of the policy
      that let it go. Broken atoms leave first; ``Pipeline()`` lets go nothing else.
    - The policies are asked again, left to right, until nothing more leaves: where a tool call
      reached across turns, letting it go makes more turns of them.
    - The ``budget`` is handed to every policy.
    - Keeps every guarantee its policies keep, and raises what they raise.

    Raises:
        InputError: something in it is no policy, or (when called) one of them returned
            messages it was not given.
    """

    policies: tuple[Policy, ...]  # first to last

    def __init__(self, *policies: Policy) -> None:
        for policy in policies:
            if not callable(policy):
                raise InputError(
                    f"{policy!r} is no policy; a pipeline takes policies, such as Pipeline(SlidingWindow(10))"
                )
        object.__setattr__(self, "policies", policies)

    @as_given
    def __call__(self, messages: Sequence[Message], budget: int | None = None) -> Kept:
        """Decide, policy by policy."""
        given = _distinct(messages)
        place_of = {id(message): place for place, message in enumerate(given)}
        reasons: dict[int, str] = {}
        kept = _step(Candidates.of(given).without({}), place_of, reasons)
        before = len(kept) + 1
        while len(kept) < before:
            before = len(kept)
            for policy in self.policies:
                kept = _step(policy([given[place] for place in kept], budget), place_of, reasons)
        return Kept(
            kept=tuple(messages[place] for place in kept),
            dropped=tuple(
                Dropped(message=messages[place], reason=reasons[place]) for place in sorted(reasons)
            ),
        )


def _distinct(messages: Sequence[Message]) -> list[Message]:
    """Return the messages, those that stand there twice as copies, so that each has one place."""
    seen: set[int] = set()
    given = []
    for message in messages:
        given.append(replace(message) if id(message) in seen else message)
        seen.add(id(message))
    return given


def _step(decided: Kept, place_of: dict[int, int], reasons: dict[int, str]) -> list[int]:
    """Note why messages left and return the places of those that stay."""
    try:
        reasons |= {place_of[id(one.message)]: one.reason for one in decided.dropped}
        return [place_of[id(message)] for message in decided.kept]
    except KeyError:
        raise InputError(
            "a policy of the pipeline returned a message it was not given; a policy only chooses"
        ) from None
