"""Policies: by turns, tokens and importance, and `Pipeline`, which applies several in a row."""

from bisect import bisect
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from operator import itemgetter

from jiyi.errors import BadBudget, InputError
from jiyi.records import Message, check_tokens
from jiyi.records.atoms import Atom, turns
from jiyi.short_term.policy import (
    DEFAULT_TOKENS,
    Candidates,
    Dropped,
    Kept,
    Policy,
    TokenLimit,
    accept_dicts,
    check_count,
    smaller_limit,
)
from jiyi.text import TokenCounter, counter_for
from jiyi.text.traits import salience

__all__ = ["ImportanceSampling", "Pipeline", "SlidingWindow", "TokenBudget"]

_DEFAULT_TURNS = 10
_COUNTED_ROLES = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """A `Policy` that keeps the last ``k`` turns, or the last ``max_messages`` messages.

    - With ``k``, or neither of the two (10 turns then), turns count. With ``max_messages`` alone, user and
      assistant messages count, wherever turns begin.
    - System and pinned messages stay in addition; neither limit counts them.
    - With both, at most ``max_messages`` user and assistant messages of the turns stay. Whole turns are
      dropped first, from the oldest. If the newest turn alone is too long, its oldest atoms are dropped, but
      the user message that opens it stays.
    - Tool results stay or are dropped with their call and are not counted.
    - Broken atoms are dropped, pinned or not; they make no turn.
    - It ignores tokens and the ``budget`` argument. Add a `TokenBudget` if tokens matter.
    - Applied again to what it kept, it drops nothing.

    Raises `SettingsError`: ``k`` or ``max_messages`` is not a whole number of at least 1.
    """

    k: int | None = None  # turns; without either limit 10
    max_messages: int | None = None  # user and assistant messages; None for no such limit

    def __post_init__(self) -> None:
        if self.k is None and self.max_messages is None:
            object.__setattr__(self, "k", _DEFAULT_TURNS)
        for name in ("k", "max_messages"):
            if (value := getattr(self, name)) is not None:
                check_count(name, value)

    @accept_dicts
    def __call__(self, messages: Sequence[Message], budget: int | None = None) -> Kept:  # noqa: ARG002
        """Decide; ``budget`` is ignored."""
        candidates = Candidates.of(messages)
        return candidates.without(self.find_leaving(candidates))

    def find_leaving(self, candidates: Candidates) -> dict[int, str]:
        """Return the places of the optional messages to drop, with the reasons."""
        if self.k is None:
            old = candidates.optional[: -(self.max_messages or 0)]
            return dict.fromkeys((i for a in old for i in a.indices), self._reason)
        leaving: dict[int, str] = {}
        # Dropping a call that joined turns splits them again, so the limits are applied until
        # nothing more is dropped; nearly always that takes two rounds.
        while dropped := self._choose_leaving(candidates, leaving):
            leaving |= dropped
        return leaving

    @property
    def _reason(self) -> str:
        return f"older than the last {self.max_messages} user and assistant messages"

    def _choose_leaving(self, candidates: Candidates, leaving: dict[int, str]) -> dict[int, str]:
        """Return what to drop in addition to ``leaving`` and the broken atoms."""
        choosable = {i for atom in candidates.optional for i in atom.indices if i not in leaving}
        required = candidates.required_places
        present = [i for i in range(len(candidates.messages)) if i in choosable or i in required]
        rounds = [[present[i] for i in places] for places in turns([candidates.messages[i] for i in present])]
        old = max(0, len(rounds) - (self.k or 0))
        dropped = {i: f"older than the last {self.k} turns" for places in rounds[:old] for i in places}
        if self.max_messages is not None:
            dropped |= dict.fromkeys(self._find_excess(candidates, rounds[old:], choosable), self._reason)
        return {i: why for i, why in dropped.items() if i in choosable}

    def _find_excess(
        self, candidates: Candidates, rounds: list[list[int]], choosable: set[int]
    ) -> Iterator[int]:
        newest, free = len(rounds) - 1, self.max_messages or 0
        for number in range(newest, -1, -1):
            turn = [candidates.messages[i].role for i in rounds[number] if i in choosable]
            free -= sum(role in _COUNTED_ROLES for role in turn)
            if free < 0:  # this turn leaves with those before it; of the newest only the oldest atoms
                for places in rounds[: number + (number < newest)]:
                    yield from places
                if number == newest:
                    yield from self._find_oldest_in_turn(candidates, rounds[newest], choosable, -free)
                return

    def _find_oldest_in_turn(
        self, candidates: Candidates, turn: list[int], choosable: set[int], excess: int
    ) -> Iterator[int]:
        messages = candidates.messages
        opener = turn[0] if messages[turn[0]].role == "user" else None
        inside = choosable.intersection(turn) - {opener}
        # Every optional atom has exactly one user or assistant message.
        oldest = [atom for atom in candidates.optional if atom.first in inside][:excess]
        # Calls that joined several turns into this one are dropped first: without them the turns
        # are separate again, and the older ones can be dropped whole.
        users = [i for i in turn if messages[i].role == "user"]
        joining = [a for a in oldest if bisect(users, a.first) < bisect(users, a.indices[-1])]
        for atom in joining or oldest:
            yield from atom.indices


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """A `Policy` that keeps the newest messages within a number of tokens.

    - ``counter.count_all(kept)`` is at most ``max_tokens``, message overhead and the opening of the reply
      included; if a ``budget`` is given too, the smaller limit applies.
    - Whole atoms are dropped, the oldest first; no message is cut. The kept ones are contiguous, except that
      an atom that would not fit even alone is skipped.
    - System and pinned messages stay. With ``keep_last`` the newest sound atom without a system message stays
      too, so that something is left to answer. Broken atoms are dropped, pinned or not.
    - Messages that carry a count of this counter are not counted again, and those older than the kept ones
      are not counted at all.

    Raises `BadBudget` if ``max_tokens`` or ``budget`` is not a whole number of at least 1, and (when called)
    `BudgetTooSmall` if what must stay takes more than the budget.
    """

    max_tokens: int = DEFAULT_TOKENS  # in total
    counter: TokenCounter = field(default_factory=counter_for)
    keep_last: bool = True  # the newest atom stays in any case

    def __post_init__(self) -> None:
        check_tokens("max_tokens", self.max_tokens, error=BadBudget)

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

        ``window`` holds input and output together, such as 128_000; ``fraction`` is of the window without the
        reply, and the rest a margin for what cannot be counted. By default tokens are counted as for gpt-4o.

        Raises `BadBudget`: these are not numbers of tokens, ``fraction`` is not over 0 and at most 1, or
        nothing is left for the messages.
        """
        check_tokens("window", window, error=BadBudget)
        check_tokens("max_output_tokens", max_output_tokens, 0, BadBudget)
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction <= 1:
            raise BadBudget(f"fraction={fraction!r} must be a number over 0 and at most 1")
        tokens = int(fraction * (window - max_output_tokens) + 1e-6)
        if tokens < 1:
            sizes = f"a window of {window:,} tokens with {max_output_tokens:,} for the reply"
            raise BadBudget(f"{sizes} leaves none for messages; lower max_output_tokens")
        return cls(tokens, counter or counter_for(), keep_last)

    @accept_dicts
    def __call__(self, messages: Sequence[Message], budget: int | None = None) -> Kept:
        """Decide for the smaller of ``max_tokens`` and ``budget``."""
        tokens, candidates = smaller_limit(self.max_tokens, budget), Candidates.of(messages)
        limit = TokenLimit.of(candidates, tokens or 0, self.counter, keep_last=self.keep_last)
        free, full = limit.room, False
        leaving: dict[int, str] = {}
        for atom in reversed(limit.optional):
            size = 0 if full else limit.count(atom)
            if size > limit.room:
                reason = limit.too_large_reason
            elif full or size > free:
                full, reason = True, limit.over_reason
            else:
                free -= size
                continue
            leaving |= dict.fromkeys(atom.indices, reason)
        return candidates.without(leaving)


_SCORED_CHARACTERS = 2_000  # characters of a message that `salience` looks at
_MAX_SCORES = 50_000

# Keyed by digest, so that no text stays here after it is forgotten; a cleared cache costs only time.
_scores: dict[bytes, float] = {}


@dataclass(frozen=True, slots=True)
class ImportanceSampling:
    """A `Policy` that keeps the most important messages within a number of tokens or messages.

    - With ``max_messages`` at most that many user and assistant messages stay; without ``max_tokens`` (and
      without a ``budget``) tokens do not count. With neither of the two the limit is 4,000 tokens.
    - The importance of a message is its ``importance`` if given, else the `jiyi.text.salience` of its text
      and tool calls. A tool call and its results have the highest of theirs.
    - Whole atoms are dropped until the rest fits: first those that would not fit even alone, then the least
      important, the oldest of equals first.
    - Tokens, required messages and errors are those of `TokenBudget`; `SettingsError` for impossible
      ``max_messages``.
    - The reason contains the score. If everything fits, nothing is scored; 10,000 messages of 100 characters
      take about two seconds the first time, a tenth of that afterwards.
    """

    max_tokens: int | None = None  # in total
    max_messages: int | None = field(default=None, kw_only=True)  # user and assistant messages
    counter: TokenCounter = field(default_factory=counter_for, kw_only=True)
    keep_last: bool = field(default=True, kw_only=True)  # the newest atom stays in any case

    def __post_init__(self) -> None:
        if self.max_messages is not None:
            check_count("max_messages", self.max_messages)
        elif self.max_tokens is None:
            object.__setattr__(self, "max_tokens", DEFAULT_TOKENS)
        if self.max_tokens is not None:
            check_tokens("max_tokens", self.max_tokens, error=BadBudget)

    @accept_dicts
    def __call__(self, messages: Sequence[Message], budget: int | None = None) -> Kept:
        """Decide for the smaller of ``max_tokens`` and ``budget``."""
        tokens, candidates = smaller_limit(self.max_tokens, budget), Candidates.of(messages)
        leaving = self._drop_by_count(candidates)
        if tokens is not None:
            limit = TokenLimit.of(candidates, tokens, self.counter, keep_last=self.keep_last)
            leaving |= self._drop_by_tokens(candidates, limit, leaving)
        return candidates.without(leaving)

    def _drop_by_count(self, candidates: Candidates) -> dict[int, str]:
        # Every optional atom has exactly one user or assistant message.
        excess = 0 if self.max_messages is None else len(candidates.optional) - self.max_messages
        if excess <= 0:
            return {}
        choosable = candidates.optional[:-1] if self.keep_last else candidates.optional
        ranked = _sort_by_importance(candidates, choosable)[:excess]
        reason = f"the least there was, over the limit of {self.max_messages:,} messages"
        return {i: f"importance {score:.2f}, {reason}" for score, atom in ranked for i in atom.indices}

    def _drop_by_tokens(
        self, candidates: Candidates, limit: TokenLimit, dropped: Container[int]
    ) -> dict[int, str]:
        """Return the messages to drop in addition to ``dropped``, so that the rest fits the limit."""
        leaving: dict[int, str] = {}
        excess = -limit.room
        sizes: dict[Atom, int] = {}  # of those that may be dropped
        for atom in limit.optional:
            if atom.first in dropped:
                continue
            size = limit.count(atom)
            if size > limit.room:
                leaving |= dict.fromkeys(atom.indices, limit.too_large_reason)
            else:
                sizes[atom] = size
                excess += size
        for score, atom in _sort_by_importance(candidates, sizes) if excess > 0 else ():
            reason = f"importance {score:.2f}, the least there was, {limit.over_reason}"
            leaving |= dict.fromkeys(atom.indices, reason)
            excess -= sizes[atom]
            if excess <= 0:
                break
        return leaving


def _sort_by_importance(candidates: Candidates, chosen: Iterable[Atom]) -> list[tuple[float, Atom]]:
    """Return atoms with the importance of each, the least first, of equals the oldest."""
    scored = [(max(_rate_message(candidates.messages[i]) for i in atom.indices), atom) for atom in chosen]
    return sorted(scored, key=itemgetter(0))


def _rate_message(message: Message) -> float:
    if message.importance is not None:
        return message.importance
    text = message.search_text[:_SCORED_CHARACTERS]
    key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    score = _scores.get(key)
    if score is None:
        if len(_scores) >= _MAX_SCORES:
            _scores.clear()
        score = _scores[key] = salience(text)
    return score


@dataclass(frozen=True, slots=True, init=False)
class Pipeline:
    """A `Policy` made of policies: each decides about what the ones before it kept, and gets the ``budget``.

    - Dropped messages are in the order of the conversation, each with the reason of the policy that dropped
      it. Broken atoms are dropped first; ``Pipeline()`` drops nothing else.
    - The policies are applied in order until nothing more is dropped, because dropping a tool call that
      reaches across turns splits these turns.
    - Keeps every guarantee its policies keep, and raises what they raise; `InputError` for what is no policy,
      or for one that returns messages it was not given.
    """

    policies: tuple[Policy, ...]  # first to last

    def __init__(self, *policies: Policy) -> None:
        for policy in policies:
            if not callable(policy):
                example = "a pipeline takes policies, such as Pipeline(SlidingWindow(10))"
                raise InputError(f"{policy!r} is no policy; {example}")
        object.__setattr__(self, "policies", policies)

    @accept_dicts
    def __call__(self, messages: Sequence[Message], budget: int | None = None) -> Kept:
        """Decide, policy by policy."""
        distinct = _copy_repeated(messages)
        place_of = {id(message): place for place, message in enumerate(distinct)}
        reasons: dict[int, str] = {}
        kept = _apply_decision(Candidates.of(distinct).without({}), place_of, reasons)
        before = len(kept) + 1
        while len(kept) < before:
            before = len(kept)
            for policy in self.policies:
                kept = _apply_decision(policy([distinct[place] for place in kept], budget), place_of, reasons)
        dropped = [Dropped(message=messages[place], reason=reasons[place]) for place in sorted(reasons)]
        return Kept(kept=tuple(messages[place] for place in kept), dropped=tuple(dropped))


def _copy_repeated(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with every repeated object replaced by a copy, so that each has one place."""
    seen: set[int] = set()
    distinct = []
    for message in messages:
        distinct.append(replace(message) if id(message) in seen else message)
        seen.add(id(message))
    return distinct


def _apply_decision(decision: Kept, place_of: dict[int, int], reasons: dict[int, str]) -> list[int]:
    try:
        reasons |= {place_of[id(drop.message)]: drop.reason for drop in decision.dropped}
        return [place_of[id(message)] for message in decision.kept]
    except KeyError:
        problem = "a policy of the pipeline returned a message it was not given"
        raise InputError(f"{problem}; a policy only chooses") from None
