"""Rules of what may be forgotten: one for episodes, and one for each other kind. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Protocol, runtime_checkable

from jiyi.records import Episode, Fact, ForgetWeights, Item, Kind, Knowledge, Message

__all__ = [
    "OTHER_RULES", "FactRule", "ForgetRule", "ItemRule", "KindRule", "KnowledgeRule", "MessageRule", "Rule",
]  # fmt: skip

_DECAY_HOURS = 720.0  # a month
_MANY_STEPS = 3


@runtime_checkable
class Rule(Protocol):
    """Decides about episodes; any object with these four members will do."""

    @property
    def threshold(self) -> float:
        """Episodes with a lower importance may go."""

    @property
    def min_age(self) -> timedelta:
        """Younger ones stay, unless there are more than ``max_episodes``."""

    @property
    def max_episodes(self) -> int:
        """How many stay at most, pinned ones included."""

    def importance(self, record: Episode, now: datetime) -> float:
        """Return the importance of an episode now, 0 to 1; the same for the same record and moment."""


@dataclass(frozen=True, kw_only=True)
class ForgetRule:
    """The published rule; a subclass may change `importance` alone.

    With the weights as they are by default::

        importance = 0.5 - min(0.3, 0.1 * age_hours / 720) + min(0.2, 0.05 * access_count)
                     + (0.1 if success, -0.05 if failed) + (0.15 if an alert set it off)
                     + (0.1 if it has more than 3 steps), at least 0, at most 1

    If it is never recalled, a failed episode sinks below 0.25 after 60 days and a partial success after
    75; a success never does, and goes only if there are too many.
    """

    threshold: float = 0.25  # less important episodes may go
    min_age: timedelta = timedelta(days=7)  # younger ones stay, unless there are too many
    max_episodes: int = 10_000  # how many stay at most, pinned ones included
    weights: ForgetWeights = field(default_factory=ForgetWeights)  # what each property adds or subtracts

    def importance(self, record: Episode, now: datetime) -> float:
        """Return the importance of an episode now, 0 to 1; one from the future counts as new."""
        w = self.weights
        age_hours = _age(record.created_at, now) / timedelta(hours=1)
        score = w.base - min(w.age_most, w.age * age_hours / _DECAY_HOURS)
        score += min(w.access_most, w.access * record.access_count)
        score += {"success": w.success, "partial": w.partial, "failed": w.failed}[record.outcome]
        score += w.alert if record.trigger_type == "alert" else 0.0
        score += w.steps if len(record.steps) > _MANY_STEPS else 0.0
        return min(1.0, max(0.0, score))


@dataclass(frozen=True, kw_only=True)
class KindRule:
    """Decides about records of one other kind that are not pinned: they go when some time has passed.

    The fields of a rule that are spans say how much.
    """

    kind: ClassVar[Kind]  # the kind it decides about

    def until(self, now: datetime) -> datetime | None:
        """Return the time before which a record must have been created to be judged; None judges none."""
        spans = [value for value in vars(self).values() if isinstance(value, timedelta)]
        try:
            return now - min(spans) if spans else None
        except OverflowError:  # before the first date there is
            return None

    def reason(self, record: Any, now: datetime) -> str | None:
        """Return why the record may go, as one of a few fixed texts, or None if it stays."""
        if (term := self._term(record)) is None:
            return None
        why, since, span = term
        return f"{why} {span / timedelta(days=1):g} days" if _age(since, now) >= span else None

    def _term(self, record: Any) -> tuple[str, datetime, timedelta] | None:
        """Return why a record goes, since when its time passes, and how much has to; None if it stays."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class KnowledgeRule(KindRule):
    """Uncertain knowledge goes when it was neither recalled nor updated for long."""

    confidence: float = 0.6  # knowledge at least so certain stays
    unused: timedelta = timedelta(days=180)  # since it was last recalled or updated
    kind: ClassVar[Kind] = "knowledge"

    def _term(self, record: Knowledge) -> tuple[str, datetime, timedelta] | None:
        used = max(filter(None, [record.created_at, record.updated_at, record.last_accessed_at]))
        why = f"confidence below {self.confidence:g} and unused for"
        return None if record.confidence >= self.confidence else (why, used, self.unused)


@dataclass(frozen=True, kw_only=True)
class FactRule(KindRule):
    """Facts that are no longer valid go long after their end; valid ones stay.

    A fact ends at ``valid_to`` or, if that is not known, when it was said. If it was recalled
    since, it is kept as long again, unless it was retracted.
    """

    ended: timedelta = timedelta(days=365)  # since it was superseded or expired
    retracted: timedelta = timedelta(days=30)  # since it was retracted
    kind: ClassVar[Kind] = "fact"

    def _term(self, record: Fact) -> tuple[str, datetime, timedelta] | None:
        end, status = max(record.created_at, record.valid_to or record.created_at), record.status
        if status == "retracted":
            return "retracted for", end, self.retracted
        holds = status in ("active", "unsure")
        if holds and record.valid_to is None:
            return None
        why = "expired for" if holds else f"{status} for"
        return why, max(end, record.last_accessed_at or end), self.ended


@dataclass(frozen=True, kw_only=True)
class MessageRule(KindRule):
    """Messages go by age alone; off unless an age is given."""

    max_age: timedelta | None = None  # None: messages are not forgotten
    kind: ClassVar[Kind] = "message"

    def _term(self, record: Message) -> tuple[str, datetime, timedelta] | None:
        age = self.max_age
        return None if age is None or record.created_at is None else ("older than", record.created_at, age)


class ItemRule(KindRule):
    """Items go when they expire; those without a ttl stay."""

    kind: ClassVar[Kind] = "item"

    def until(self, now: datetime) -> datetime | None:
        """Judge all items."""
        return now

    def reason(self, record: Item, now: datetime) -> str | None:
        """Return that its time is over, or None."""
        return None if record.is_there(now) else "its time is over"


OTHER_RULES: Sequence[KindRule] = (KnowledgeRule(), FactRule(), MessageRule(), ItemRule())
"""The default rules for everything but episodes."""


def _age(since: datetime, now: datetime) -> timedelta:
    """Return how long ago it was; 0 for a time in the future, as clocks differ."""
    return max(timedelta(0), now - since)
