"""Kind and role of a record as one small number, for arrays in memory."""

from collections.abc import Iterable, Mapping

from jiyi.records import SEARCHABLE, Kind, Query, Role
from jiyi.storage.candidates import ROLES

__all__ = ["KINDS_BY_LABEL", "LABELS", "label_each", "labels_of"]

LABELS: tuple[tuple[Kind, Role | None], ...] = (
    *(("message", role) for role in ROLES),
    ("episode", None),
    ("knowledge", None),
    ("fact", None),
)
"""What each number stands for; those of messages are the places in `ROLES`."""

KINDS_BY_LABEL: tuple[Kind, ...] = tuple(kind for kind, _ in LABELS)
"""The kind of each number."""

_NUMBERS: Mapping[tuple[Kind, Role | None], int] = {pair: number for number, pair in enumerate(LABELS)}


def label_each(pairs: Iterable[tuple[Kind, Role | None]]) -> list[int]:
    """Return the numbers of kinds with roles."""
    return list(map(_NUMBERS.__getitem__, pairs))


def labels_of(query: Query) -> list[int] | None:
    """Return the numbers a query asks for, None where it asks for all."""
    if query.roles is None and set(query.kinds) >= set(SEARCHABLE):
        return None
    wanted = ((query.roles is None or role in query.roles) and kind in query.kinds for kind, role in LABELS)
    return [label for label, asked in enumerate(wanted) if asked]
