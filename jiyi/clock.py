"""Time: the clock, and the rule that every datetime has a zone."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo

from jiyi.errors import InputError, NaiveDatetime

Clock = Callable[[], datetime]
"""Gives the present as an aware datetime; tests pass their own."""

Moment = datetime | str | float
"""An aware datetime, an ISO 8601 text with a time zone, or seconds since 1970."""


def utc_now() -> datetime:
    """Return the present in UTC."""
    return datetime.now(UTC)


def aware(moment: datetime, field: str = "created_at") -> datetime:
    """Return ``moment`` in UTC; NaiveDatetime: ``moment`` has no time zone."""
    if moment.tzinfo is None or moment.utcoffset() is None:
        advice = f"pass an aware datetime, for example {field}=datetime.now(timezone.utc)"
        raise NaiveDatetime(f"{field}={moment.isoformat()} has no time zone; {advice}")
    return moment.astimezone(UTC)


def read_moment(
    value: object, field: str = "created_at", zone: tzinfo | None = None, room: timedelta = timedelta()
) -> datetime:
    """Return the aware datetime of a datetime, an ISO 8601 text, or seconds since 1970.

    ``field`` is its name in an error, ``zone`` is that of a datetime or text that names none, and dates must
    still be possible ``room`` after it. Raises `NaiveDatetime` without any time zone, `InputError` for what
    is no moment from year 1 to 9999.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _EPOCH + timedelta(seconds=value)  # fromtimestamp takes nothing before 1970 on Windows
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        moment = moment.replace(tzinfo=moment.tzinfo or zone)
        aware(moment, field) + room
    except NaiveDatetime:
        raise
    except (ValueError, OverflowError, OSError) as error:
        raise InputError(f"{field} {str(value)[:80]!r} is neither ISO 8601 nor seconds since 1970") from error
    return moment


def to_micros(moment: datetime) -> int:
    """Return whole microseconds since 1970 in UTC, exact (no floating point)."""
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def utc_from_micros(micros: int) -> datetime:
    """Undo `to_micros`."""
    return _EPOCH + timedelta(microseconds=micros)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
