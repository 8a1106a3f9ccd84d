"""Importance: what matters least leaves first."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from jiyi.errors import SettingsError
from jiyi.records import Message
from jiyi.short_term.candidates import Candidates
from jiyi.short_term.limit import Limit, check_limit
from jiyi.short_term.policy import Kept
from jiyi.short_term.turns import Atom
from jiyi.text import TokenCounter, counter_for
from jiyi.text.salience import salience

__all__ = ["ImportanceSampling"]

_READ = 2_000  # characters of a message that `salience` looks at
_MOST_SCORES = 50_000

# By digest, so that no text outlives its being forgotten; losing them costs only time.
_scores: dict[bytes, float] = {}


@dataclass(frozen=True, slots=True)
class ImportanceSampling:
    """A `Policy` that keeps the messages that matter most within a number of tokens.

    - A message is worth its own ``importance`` where somebody gave one, else the
      `jiyi.text.salience` of its text and tool calls. A tool call and its results are worth
      as much as the best of them.
    - Whole atoms leave until the rest fits: first those that would not fit even alone, then
      the least important. Of equals the oldest leaves first; with a ``seed`` other than 0,
      in an order drawn from the seed and the ids of the messages, the same every time.
    - ``counter.count_all(kept)`` is at most ``max_tokens``, message overhead and the opening
      of the reply included; where a ``budget`` is given too, the smaller one holds.
    - System and pinned messages and the newest sound atom stay. Broken atoms leave.
    - The reason says the score. Where everything fits, nothing is scored; 10,000 messages of
      100 characters take about two seconds the first time, a tenth of that afterwards.

    Raises:
        BadBudget: ``max_tokens`` or ``budget`` is not a whole number of at least 1.
        SettingsError: ``seed`` is not a whole number.
        BudgetTooSmall: what must stay takes more than the budget (when called).
    """

    max_tokens: int  # tokens in all
    counter: TokenCounter = field(default_factory=counter_for, kw_only=True)
    seed: int = field(default=0, kw_only=True)  # which of equals leaves first; 0: the oldest
    keep_last: bool = field(default=True, kw_only=True)  # the newest atom stays in any case

    def __post_init__(self) -> None:
        """Refuse what cannot be a budget or a seed."""
        check_limit("max_tokens", self.max_tokens)
        if not isinstance(self.seed, int) or isinstance(self.seed, bool):
            raise SettingsError(f"seed={self.seed!r} must be a whole number")

    def __call__(self, messages: Sequence[Message], budget: int | None = None) -> Kept:
        """Decide for the smaller of ``max_tokens`` and ``budget``."""
        if budget is not None:
            check_limit("budget", budget)
        tokens = self.max_tokens if budget is None else min(self.max_tokens, budget)
        candidates = Candidates.of(messages)
        limit = Limit.of(candidates, tokens, self.counter, keep_last=self.keep_last)
        sizes = [limit.count(atom) for atom in limit.optional]
        leaving: dict[int, str] = {}
        over = -limit.room
        chosen: list[tuple[Atom, int]] = []
        for atom, size in zip(limit.optional, sizes, strict=True):
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
        return candidates.without(leaving)

    def _ranked(
        self, candidates: Candidates, chosen: Sequence[tuple[Atom, int]]
    ) -> list[tuple[float, int, Atom, int]]:
        """Return each atom with its score and its rank among equals."""
        messages = candidates.messages
        ranked = []
        for place, (atom, size) in enumerate(chosen):
            score = max(_worth(messages[i]) for i in atom.indices)
            rank = _drawn(self.seed, messages[atom.first].id) if self.seed else place
            ranked.append((score, rank, atom, size))
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


def _drawn(seed: int, message_id: str) -> int:
    drawn = blake2b(f"{seed}\n{message_id}".encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(drawn.digest(), "big")
