"""What may be handed to a verb: refused here where it would be misread further down."""

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from jiyi.clock import aware
from jiyi.errors import BadQuery, InputError

__all__ = ["check_flags", "check_limit", "check_text", "ids_of", "moment_of", "path_of", "path_to_write"]

_MOST = 10_000
_DATABASE = b"SQLite format 3\0"


def ids_of(ids: Iterable[str] | str) -> tuple[str, ...]:
    """Return one id or several as a tuple, in their order, each once.

    Raises:
        BadQuery: it is neither, or one of them is no text.
    """
    if isinstance(ids, bytes | bytearray) or not isinstance(ids, Iterable):
        raise BadQuery(f"ids is an id or a list of ids, not {type(ids).__name__}")
    names = (ids,) if isinstance(ids, str) else tuple(dict.fromkeys(ids))
    for name in names:
        if not isinstance(name, str) or not name:
            raise BadQuery(f"an id must be non-empty text, not {name!r}")
    return names


def check_text(**words: object) -> None:
    """Refuse words that are not text, or blank; None stands for what was left out.

    Raises:
        BadQuery: says which.
    """
    for name, value in words.items():
        if value is None:
            continue
        if not isinstance(value, str):
            raise BadQuery(f"{name} must be text, not {type(value).__name__}")
        if not value.strip():
            raise BadQuery(f"{name} is empty; give words or leave it out")


def check_limit(limit: object) -> None:
    """Refuse a number of records that is none.

    Raises:
        BadQuery: it is not a whole number from 1 to 10,000.
    """
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= _MOST:
        raise BadQuery(f"limit={limit!r} must be a whole number from 1 to {_MOST:,}")


def check_flags(**flags: object) -> None:
    """Refuse anything but True and False: "no" counts as true in Python.

    Raises:
        BadQuery: says which.
    """
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise BadQuery(f"{name} must be True or False, not {value!r}")


def moment_of(moment: datetime | None, name: str) -> datetime | None:
    """Return a datetime in UTC; None stays.

    Raises:
        BadQuery: it is no datetime.
        NaiveDatetime: it has no time zone.
    """
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise BadQuery(f"{name} must be an aware datetime, not {type(moment).__name__}")
    try:
        return aware(moment, name)
    except OverflowError as error:
        raise BadQuery(f"{name}={moment.isoformat()} lies outside the years 1 to 9999 in UTC") from error


def path_of(path: str | Path) -> Path:
    """Return the path of a file.

    Raises:
        InputError: it is no path, or none that could name a file.
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"a file is named by text or a Path, not {type(path).__name__}")
    file = Path(path)
    if not file.name or "\0" in str(file):
        raise InputError(f"{str(path)!r} names no file; give a path such as memory.jsonl")
    return file


def path_to_write(path: str | Path) -> Path:
    """Return the path of a file that may be written over.

    Raises:
        InputError: as `path_of`, or there is a database: most likely the memory itself.
    """
    file = path_of(path)
    with suppress(OSError), file.open("rb") as there:
        if there.read(len(_DATABASE)) == _DATABASE:
            raise InputError(f"{file} is a database and would be lost; name another file")
    return file
