"""Saving the undamaged records of a file into a new one."""

import shutil
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from jiyi.errors import DatabaseDamaged, DiskFull, InputError, StorageError
from jiyi.records import Scope
from jiyi.settings import Settings
from jiyi.storage.backend import Backend, open_backend
from jiyi.storage.database import grouped
from jiyi.storage.place import Place
from jiyi.storage.relational.find import decode_rows
from jiyi.storage.sqlite import SqliteDatabase
from jiyi.storage.sqlite.checksums import readable_rows
from jiyi.storage.sqlite.file import DISK_FULL
from jiyi.storage.transfer.copy import PARTS, Part, put_batch
from jiyi.storage.trash import decode_entries

__all__ = ["RepairReceipt", "repair_file"]


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
        raise DatabaseDamaged(
            f"{source}: the pages that describe its tables are damaged; restore a backup"
        ) from error
    except StorageError as error:
        raise type(error)(str(error).replace(str(copy), str(source))) from error


def _save(damaged: SqliteDatabase, new: Backend) -> RepairReceipt:
    saved: dict[Part, int] = dict.fromkeys(PARTS, 0)
    refused: list[str] = []
    unreadable = 0
    for part in PARTS:
        with damaged.read() as db:
            for rows in readable_rows(db, part):
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
