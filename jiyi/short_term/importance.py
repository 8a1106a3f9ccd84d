"""Importance: what matters least leaves first."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from jiyi.records import Message
from jiyi.records.atoms import Atom
from jiyi.short_term.policy import (
    DEFAULT_TOKENS,
    Candidates,
    Kept,
    Limit,
    as_given,
    check_count,
    check_tokens,
)
from jiyi.text import TokenCounter, counter_for
from jiyi.text.salience import salience

__all__ = ["ImportanceSampling"]

_READ = 2_000  # characters of a message that `salience` looks at
_MOST_SCORES = 50_000

# By digest, so that no text outlives its being forgotten; losing them costs only time.
_scores: dict[bytes, float] = {}


@dataclass(frozen=True, slots=True)
class ImportanceSampling:
    """A `Policy` that keeps the messages that matter most within a number of tokens or messages.

    - With ``max_messages`` at most that many user and assistant messages stay, the least
      important leave first; without ``max_tokens`` (and without a ``budget``) tokens
      are not looked at. With neither of the two the limit is 4,000 tokens.

    - A message is worth its own ``importance`` where somebody gave one, else the
      `jiyi.text.salience` of its text and tool calls. A tool call and its results are worth
      as much as the best of them.
    - Whole atoms leave until the rest fits: first those that would not fit even alone, then
      the least important. Of equals the oldest leaves first.
    - ``counter.count_all(kept)`` is at most ``max_tokens``, message overhead and the opening
      of the reply included; where a ``budget`` is given too, the smaller one holds.
    - System and pinned messages and the newest sound atom stay. Broken atoms leave.
    - The reason says the score. Where everything fits, nothing is scored; 10,000 messages of
      100 characters take about two seconds the first time, a tenth of that afterwards.

    Raises:
        BadBudget: ``max_tokens`` or ``budget`` is not a whole number of at least 1.
        SettingsError: ``max_messages`` is not a whole number of at least 1.
        BudgetTooSmall: what must stay takes more than the budget (when called).
    """

    max_tokens: int | None = None  # tokens in all
    max_messages: int | None = field(default=None, kw_only=True)  # user and assistant messages
    counter: TokenCounter = field(default_factory=counter_for, kw_only=True)
    keep_last: bool = field(default=True, kw_only=True)  # the newest atom stays in any case

    def __post_init__(self) -> None:
        if self.max_messages is not None:
            check_count("max_messages", self.max_messages)
        elif self.max_tokens is None:
            object.__setattr__(self, "max_tokens", DEFAULT_TOKENS)
        if self.max_tokens is not None:
            check_tokens("max_tokens", self.max_tokens)

    @as_given
    def __call__(self, messages: Sequence[Message], budget: int | None = None) -> Kept:
        """Decide for the smaller of ``max_tokens`` and ``budget``."""
        if budget is not None:
            check_tokens("budget", budget)
        candidates = Candidates.of(messages)
        leaving = self._too_many(candidates)
        limits = [limit for limit in (self.max_tokens, budget) if limit is not None]
        if limits:
            limit = Limit.of(candidates, min(limits), self.counter, keep_last=self.keep_last)
            leaving |= self._too_long(candidates, limit, leaving)
        return candidates.without(leaving)

    def _too_many(self, candidates: Candidates) -> dict[int, str]:
        if self.max_messages is None:
            return {}
        # Every optional atom has exactly one user or assistant message.
        over = len(candidates.optional) - self.max_messages
        if over <= 0:
            return {}
        choosable = candidates.optional[:-1] if self.keep_last else candidates.optional
        ranked = sorted(self._ranked(candidates, [(a, 0) for a in choosable]), key=lambda one: one[:2])
        reason = f"over the limit of {self.max_messages:,} messages"
        return {
            i: f"importance {score:.2f}, the least there was, {reason}"
            for score, _, atom, _ in ranked[:over]
            for i in atom.indices
        }

    def _too_long(self, candidates: Candidates, limit: Limit, gone: Container[int]) -> dict[int, str]:
        """Return what leaves so that the rest, without what is gone already, fits the limit."""
        leaving: dict[int, str] = {}
        over = -limit.room
        chosen: list[tuple[Atom, int]] = []
        for atom in limit.optional:
            if atom.first in gone:
                continue
            size = limit.count(atom)
            if size > limit.room:
                leaving |= dict.fromkeys(atom.indices, limit.too_large)
            else:
                chosen.append((atom, size))
                over += size
        if over > 0:
            for score, _, atom, size in sorted(self._ranked(candidates, chosen), key=lambda one: one[:2]):
                reason = f"importance {score:.2f}, the least there was, {limit.over}"
                leaving |= dict.fromkeys(atom.indices, reason)
                over -= size
                if over <= 0:
                    break
        return leaving

    def _ranked(
        self, candidates: Candidates, chosen: Sequence[tuple[Atom, int]]
    ) -> list[tuple[float, int, Atom, int]]:
        messages = candidates.messages
        ranked = []
        for place, (atom, size) in enumerate(chosen):
            score = max(_worth(messages[i]) for i in atom.indices)
            ranked.append((score, place, atom, size))
        return ranked


def _worth(message: Message) -> float:
    if message.importance is not None:
        return message.importance
    text = message.search_text[:_READ]
    key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    score = _scores.get(key)
    if score is None:
        if len(_scores) >= _MOST_SCORES:
            _scores.clear()
        score = _scores[key] = salience(text)
    return score
