"""What is read in a text that Ana types on Wednesday, 10 June 2026: statements, and their points as lines."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from jiyi.extraction import Statement, extract
from jiyi.records import single_valued

NOW = datetime(2026, 6, 10, 9, 30, tzinfo=UTC)


def read(text: str, speaker: str | None = "Ana", **options: Any) -> list[Statement]:
    given: dict[str, Any] = {"role": "user", "said_at": NOW, "zone": UTC} | options
    return extract(text, speaker=speaker, **given)


def lines(found: Sequence[Statement]) -> str:
    return "; ".join(f"{one.subject} · {one.predicate}: {one.object}" for one in found)


def points(text: str, speaker: str | None = "Ana", **options: Any) -> str:
    """Return what a text states as "subject · point: value", one after the other."""
    return lines(read(text, speaker, **options))


def named_points(text: str, **options: Any) -> str:
    """Return what is said of points that have a name."""
    return lines([one for one in read(text, **options) if single_valued(one.predicate)])
