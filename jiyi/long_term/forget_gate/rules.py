"""Rules of what may be forgotten: one for episodes, and one for each other kind. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Protocol, runtime_checkable

from jiyi.records import Episode, Fact, ForgetWeights, Item, Kind, Knowledge, Message

__all__ = [
    "OTHER_RULES",
    "FactRule",
    "ForgetRule",
    "ItemRule",
    "KindRule",
    "KnowledgeRule",
    "MessageRule",
    "Rule",
]

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


class KindRule(Protocol):
    """Decides about records of one other kind; it is never called for pinned ones."""

    @property
    def kind(self) -> Kind:
        """The kind it decides about."""

    def until(self, now: datetime) -> datetime | None:
        """Return the time before which a record must have been created to be judged; None judges none."""

    def reason(self, record: Any, now: datetime) -> str | None:
        """Return why the record may go, as one of a few fixed texts, or None if it stays."""


@dataclass(frozen=True, kw_only=True)
class KnowledgeRule:
    """Uncertain knowledge goes when it was neither recalled nor updated for long."""

    confidence: float = 0.6  # knowledge at least so certain stays
    unused: timedelta = timedelta(days=180)  # since it was last recalled or updated
    kind: ClassVar[Kind] = "knowledge"

    def until(self, now: datetime) -> datetime | None:
        """See `KindRule.until`."""
        return _moment_before(now, self.unused)

    def reason(self, record: Knowledge, now: datetime) -> str | None:
        """See `KindRule.reason`."""
        used = max(filter(None, [record.created_at, record.updated_at, record.last_accessed_at]))
        if record.confidence >= self.confidence or _age(used, now) < self.unused:
            return None
        return f"confidence below {self.confidence:g} and unused for {_format_days(self.unused)}"


@dataclass(frozen=True, kw_only=True)
class FactRule:
    """Facts that are no longer valid go long after their end; valid ones stay.

    A fact ends at ``valid_to`` or, if that is not known, when it was said. If it was recalled
    since, it is kept as long again, unless it was retracted.
    """

    ended: timedelta = timedelta(days=365)  # since it was superseded or expired
    retracted: timedelta = timedelta(days=30)  # since it was retracted
    kind: ClassVar[Kind] = "fact"

    def until(self, now: datetime) -> datetime | None:
        """See `KindRule.until`."""
        return _moment_before(now, min(self.ended, self.retracted))

    def reason(self, record: Fact, now: datetime) -> str | None:
        """See `KindRule.reason`."""
        end = max(record.created_at, record.valid_to or record.created_at)
        if record.status == "retracted":
            return self._reason("retracted", end, self.retracted, now)
        if record.status in ("active", "unsure") and record.valid_to is None:
            return None
        status = "expired" if record.status in ("active", "unsure") else record.status
        return self._reason(status, max(end, record.last_accessed_at or end), self.ended, now)

    def _reason(self, status: str, end: datetime, limit: timedelta, now: datetime) -> str | None:
        return None if _age(end, now) < limit else f"{status} for {_format_days(limit)}"


@dataclass(frozen=True, kw_only=True)
class MessageRule:
    """Messages go by age alone; off unless an age is given."""

    max_age: timedelta | None = None  # None: messages are not forgotten
    kind: ClassVar[Kind] = "message"

    def until(self, now: datetime) -> datetime | None:
        """See `KindRule.until`."""
        return None if self.max_age is None else _moment_before(now, self.max_age)

    def reason(self, record: Message, now: datetime) -> str | None:
        """See `KindRule.reason`."""
        if self.max_age is None or record.created_at is None or _age(record.created_at, now) < self.max_age:
            return None
        return f"older than {_format_days(self.max_age)}"


@dataclass(frozen=True, kw_only=True)
class ItemRule:
    """Items go when they expire; those without a ttl stay."""

    kind: ClassVar[Kind] = "item"

    def until(self, now: datetime) -> datetime | None:
        """See `KindRule.until`."""
        return now

    def reason(self, record: Item, now: datetime) -> str | None:
        """See `KindRule.reason`."""
        return None if record.is_there(now) else "its time is over"


OTHER_RULES: Sequence[KindRule] = (KnowledgeRule(), FactRule(), MessageRule(), ItemRule())
"""The default rules for everything but episodes."""


def _age(since: datetime, now: datetime) -> timedelta:
    """Return how long ago it was; 0 for a time in the future, as clocks differ."""
    return max(timedelta(0), now - since)


def _moment_before(now: datetime, span: timedelta) -> datetime | None:
    try:
        return now - span
    except OverflowError:  # before the first date there is
        return None


def _format_days(span: timedelta) -> str:
    return f"{span / timedelta(days=1):g} days"
