"""Time: where "now" comes from, and the rule that every datetime has a zone."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from jiyi.errors import NaiveDatetime

__all__ = ["Clock", "aware", "to_micros", "utc_from_micros", "utc_now"]

Clock = Callable[[], datetime]
"""Gives the present as an aware datetime; tests pass their own."""


def utc_now() -> datetime:
    """Return the present in UTC."""
    return datetime.now(UTC)


def aware(moment: datetime, field: str = "created_at") -> datetime:
    """Return ``moment`` in UTC.

    Raises:
        NaiveDatetime: ``moment`` has no time zone.
    """
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise NaiveDatetime(
            f"{field}={moment.isoformat()} has no time zone; pass an aware datetime, "
            f"for example {field}=datetime.now(timezone.utc)"
        )
    return moment.astimezone(UTC)


def to_micros(moment: datetime) -> int:
    """Return whole microseconds since 1970 in UTC, exact (no floating point)."""
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def utc_from_micros(micros: int) -> datetime:
    """Undo `to_micros`."""
    return _EPOCH + timedelta(microseconds=micros)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
