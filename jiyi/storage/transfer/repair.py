"""Saving the undamaged records of a file into a new one."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from jiyi.errors import DatabaseDamaged, DiskFull, InputError, StorageError
from jiyi.records import Scope
from jiyi.settings import Settings
from jiyi.storage.backend import Backend, open_backend
from jiyi.storage.database import grouped
from jiyi.storage.place import Place
from jiyi.storage.relational.find import decode_rows
from jiyi.storage.rows import Row
from jiyi.storage.sqlite import SqliteDatabase
from jiyi.storage.sqlite.connection import SqliteConnection
from jiyi.storage.sqlite.file import DISK_FULL
from jiyi.storage.transfer.copy import PARTS, Part, put_batch
from jiyi.storage.trash import decode_entries

_BATCH_SIZE = 1_000  # rows read at once
_ASSUMED = 100_000  # newest number if the file does not have it

_ReadRange = Callable[[int, int], list[Row]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReceipt:
    """What a repair saved, and what it could not save."""

    saved: Mapping[Part, int]  # records in the new file, by kind
    damaged: int  # records with damaged bytes
    unreadable: int  # places in tables that cannot be read, each of one or more records
    refused: tuple[str, ...]  # undamaged records that cannot be stored, such as a step without its task


def repair_file(source: Path, target: Path, settings: Settings) -> RepairReceipt:
    """Save every undamaged record of a file into a new one; the damaged file is only read.

    A record is undamaged if its checksum matches; in a file of an older schema earlier damage is not
    noticed. Steps of tasks on pages that cannot be read are not counted. Text index and vectors are made
    again; what servers keep besides records is not saved.

    Raises `InputError` if ``target`` exists already, and `StorageError` if the source cannot be opened or
    the target not be written; nothing is left of it.
    """
    if target.exists():
        raise InputError(f"{target} exists already; name a new file")
    try:
        with TemporaryDirectory(dir=target.parent) as folder:
            copy, made = Path(folder) / "damaged.db", Path(folder) / "made.db"
            shutil.copyfile(source, copy)
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{source}-wal", f"{copy}-wal")
            with closing(_open_copy(copy, source)) as damaged:
                new = open_backend(Place(path=made), settings.model_copy(update={"vector_index": "auto"}))
                with closing(new.store):
                    receipt = _save(damaged, new)
            made.replace(target)
            return receipt
    except (OSError, DiskFull) as error:
        if isinstance(error, DiskFull) or error.errno in DISK_FULL:
            raise DiskFull(f"no space left to make {target}; free some space and repair again") from error
        raise StorageError(f"{source} cannot be copied to {target.parent}: {error.strerror}") from error


def _open_copy(copy: Path, source: Path) -> SqliteDatabase:
    try:
        return SqliteDatabase(copy)
    except DatabaseDamaged as error:
        problem = f"{source}: the pages that describe its tables are damaged"
        raise DatabaseDamaged(f"{problem}; restore a backup") from error
    except StorageError as error:
        raise type(error)(str(error).replace(str(copy), str(source))) from error


def _save(damaged: SqliteDatabase, new: Backend) -> RepairReceipt:
    saved: dict[Part, int] = dict.fromkeys(PARTS, 0)
    refused: list[str] = []
    unreadable = 0
    for part in PARTS:
        with damaged.read() as db:
            for rows in _readable_rows(db, part):
                if rows is None:
                    unreadable += 1
                    continue
                found = decode_entries(db, rows) if part == "trash" else decode_rows(db, part, rows)
                for user_id, items in grouped((row["user_id"], item) for item, row in found).items():
                    done = put_batch(new, new, Scope(user_id=user_id), part, items, words={})
                    saved[part] += done.added
                    refused += [f"{kind} {id_!r}: {why}" for (kind, id_), why in done.refused]
    return RepairReceipt(
        saved=saved, damaged=damaged.damage.count, unreadable=unreadable, refused=tuple(refused)
    )


def _readable_rows(db: SqliteConnection, part: str) -> Iterator[list[Row] | None]:
    """Yield the rows of one kind of records, or of the trash, of all users; None for what cannot be read.

    Tables are read by row numbers, without indexes, and ranges that cannot be read by their halves.
    """
    if part == "task":
        yield from _tasks(db)
        return
    number = {"summary": "s.entry", "trash": "t.entry"}.get(part, "d.doc")

    def ask(first: int, last: int) -> list[Row]:
        values: dict[str, Any] = {"first": first, "last": last, "limit": _BATCH_SIZE}
        where = f"{number} BETWEEN :first AND :last"
        try:
            return db.records(f"find_{part}", values, where=where, order="ASC", by=number)
        except apsw.Error as error:
            raise DatabaseDamaged(str(error)) from error

    table = {"s.entry": "summaries", "t.entry": "trash"}.get(number, "documents")
    newest = _read_number(db, f"SELECT max({number[2:]}) FROM {table}")
    # A damaged page may hold any number.
    assumed = _read_number(db, "SELECT seq FROM sqlite_sequence WHERE name = 'documents'") or _ASSUMED
    last = newest if newest is not None and newest <= 2 * assumed else assumed
    yield from _read_range(ask, number[2:], 1, last)


def _read_range(ask: _ReadRange, name: str, first: int, last: int) -> Iterator[list[Row] | None]:
    while first <= last:
        try:
            rows = ask(first, last)
        except DatabaseDamaged:
            if first == last:
                yield None
                return
            middle = (first + last) // 2
            yield from _read_range(ask, name, first, middle)
            first = middle + 1
            continue
        yield rows
        first = rows[-1][name] + 1 if len(rows) == _BATCH_SIZE else last + 1


def _read_number(db: SqliteConnection, sql: str) -> int | None:
    try:
        row = db.raw.execute(sql).fetchone()
    except apsw.Error:
        return None
    return row[0] if row and type(row[0]) is int else None


def _tasks(db: SqliteConnection) -> Iterator[list[Row] | None]:
    """Yield tasks by their keys, which are read from both ends of the table up to a damaged page."""
    names: dict[tuple[str, str], None] = {}
    broken = False
    for order in ("ASC", "DESC"):
        try:
            read = "SELECT CAST(user_id AS BLOB), CAST(id AS BLOB) FROM tasks"
            for pair in db.raw.execute(f"{read} ORDER BY user_id {order}, id {order}"):
                user_id, id_ = map(partial(bytes.decode, errors="replace"), pair)
                names[user_id, id_] = None
        except apsw.Error:
            broken = True
    if broken:
        yield None
    for user_id, id_ in names:
        values = {"user_id": user_id, "id": id_, "limit": 1}
        try:
            yield db.records("find_task", values, where="t.user_id = :user_id AND t.id = :id", order="ASC")
        except (apsw.Error, DatabaseDamaged):
            yield None
