"""Importance sampling: the least important messages are dropped first."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from jiyi.records import Message
from jiyi.records.atoms import Atom
from jiyi.short_term.policy import (
    DEFAULT_TOKENS,
    Candidates,
    Kept,
    TokenLimit,
    accept_dicts,
    check_count,
    check_tokens,
)
from jiyi.text import TokenCounter, counter_for
from jiyi.text.salience import salience

__all__ = ["ImportanceSampling"]

_SCORED_CHARACTERS = 2_000  # characters of a message that `salience` looks at
_MAX_SCORES = 50_000

# Keyed by digest, so that no text stays here after it is forgotten; a cleared cache costs only time.
_scores: dict[bytes, float] = {}


@dataclass(frozen=True, slots=True)
class ImportanceSampling:
    """A `Policy` that keeps the most important messages within a number of tokens or messages.

    - With ``max_messages`` at most that many user and assistant messages stay; without
      ``max_tokens`` (and without a ``budget``) tokens do not count. With neither of the two the
      limit is 4,000 tokens.
    - The importance of a message is its ``importance`` if given, else the `jiyi.text.salience`
      of its text and tool calls. A tool call and its results have the highest of theirs.
    - Whole atoms are dropped until the rest fits: first those that would not fit even alone,
      then the least important, the oldest of equals first.
    - ``counter.count_all(kept)`` is at most ``max_tokens``, message overhead and the opening
      of the reply included; if a ``budget`` is given too, the smaller limit applies.
    - System and pinned messages and the newest sound atom stay. Broken atoms are dropped.
    - The reason contains the score. If everything fits, nothing is scored; 10,000 messages of
      100 characters take about two seconds the first time, a tenth of that afterwards.

    Raises:
        BadBudget: ``max_tokens`` or ``budget`` is not a whole number of at least 1.
        SettingsError: ``max_messages`` is not a whole number of at least 1.
        BudgetTooSmall: what must stay takes more than the budget (when called).
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
            check_tokens("max_tokens", self.max_tokens)

    @accept_dicts
    def __call__(self, messages: Sequence[Message], budget: int | None = None) -> Kept:
        """Decide for the smaller of ``max_tokens`` and ``budget``."""
        if budget is not None:
            check_tokens("budget", budget)
        candidates = Candidates.of(messages)
        leaving = self._drop_by_count(candidates)
        limits = [limit for limit in (self.max_tokens, budget) if limit is not None]
        if limits:
            limit = TokenLimit.of(candidates, min(limits), self.counter, keep_last=self.keep_last)
            leaving |= self._drop_by_tokens(candidates, limit, leaving)
        return candidates.without(leaving)

    def _drop_by_count(self, candidates: Candidates) -> dict[int, str]:
        if self.max_messages is None:
            return {}
        # Every optional atom has exactly one user or assistant message.
        over = len(candidates.optional) - self.max_messages
        if over <= 0:
            return {}
        choosable = candidates.optional[:-1] if self.keep_last else candidates.optional
        scored = self._score_atoms(candidates, [(a, 0) for a in choosable])
        ranked = sorted(scored, key=lambda entry: entry[:2])
        reason = f"over the limit of {self.max_messages:,} messages"
        return {
            i: f"importance {score:.2f}, the least there was, {reason}"
            for score, _, atom, _ in ranked[:over]
            for i in atom.indices
        }

    def _drop_by_tokens(
        self, candidates: Candidates, limit: TokenLimit, gone: Container[int]
    ) -> dict[int, str]:
        """Return the messages to drop, besides those in ``gone``, so that the rest fits the limit."""
        leaving: dict[int, str] = {}
        over = -limit.room
        chosen: list[tuple[Atom, int]] = []
        for atom in limit.optional:
            if atom.first in gone:
                continue
            size = limit.count(atom)
            if size > limit.room:
                leaving |= dict.fromkeys(atom.indices, limit.too_large_reason)
            else:
                chosen.append((atom, size))
                over += size
        if over > 0:
            scored = sorted(self._score_atoms(candidates, chosen), key=lambda entry: entry[:2])
            for score, _, atom, size in scored:
                reason = f"importance {score:.2f}, the least there was, {limit.over_reason}"
                leaving |= dict.fromkeys(atom.indices, reason)
                over -= size
                if over <= 0:
                    break
        return leaving

    def _score_atoms(
        self, candidates: Candidates, chosen: Sequence[tuple[Atom, int]]
    ) -> list[tuple[float, int, Atom, int]]:
        messages = candidates.messages
        ranked = []
        for place, (atom, size) in enumerate(chosen):
            score = max(_message_importance(messages[i]) for i in atom.indices)
            ranked.append((score, place, atom, size))
        return ranked


def _message_importance(message: Message) -> float:
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
