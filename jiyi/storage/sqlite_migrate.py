"""Bringing a SQLite file to the newest schema: numbered scripts, then steps that derive data anew."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import apsw

from jiyi.errors import NewerDatabase
from jiyi.records import SEARCHABLE, Episode, Knowledge, Message
from jiyi.storage.rows import encode_terms
from jiyi.storage.sql import load_migrations, load_queries
from jiyi.storage.sqlite_find import read_documents

__all__ = ["check_version", "migrate", "pragma"]

_BATCH = 100  # records read at once: a memory of any size must not be held whole
_TOLD = 10_000  # records after which work on a large file is told

_log = logging.getLogger("jiyi")


def migrate(connection: apsw.Connection, path: Path) -> None:
    """Run what a file lacks, in one transaction: it ends at the newest schema or stays as it was."""
    migrations = load_migrations("sqlite")
    if check_version(connection, path) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        missing = range(check_version(connection, path) + 1, len(migrations) + 1)
        for number in missing:
            connection.execute(migrations[number])
        for number in missing:  # with the schema complete, so that they read and write as everybody does
            if number in _STEPS:
                _STEPS[number](connection)
        connection.execute(f"PRAGMA user_version={len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def check_version(connection: apsw.Connection, path: Path) -> int:
    """Return the schema number of a file.

    Raises:
        NewerDatabase: this jiyi does not know it.
    """
    version, newest = int(pragma(connection, "user_version")), len(load_migrations("sqlite"))
    if version > newest:
        raise NewerDatabase(
            f"{path} has schema {version}, this jiyi knows {newest}; upgrade with: pip install --upgrade jiyi"
        )
    return version


def pragma(connection: apsw.Connection, name: str) -> Any:
    """Return the value of a pragma."""
    row = connection.execute(f"PRAGMA {name}").fetchone()
    assert row is not None
    return row[0]


def _analyse_everything(connection: apsw.Connection) -> None:
    """Write the terms of every record."""
    add_terms, done = load_queries("sqlite")["add_terms"], 0
    for kind in SEARCHABLE:
        after = 0
        while batch := read_documents(connection, kind, after, _BATCH):
            for doc, stored in batch:
                record = cast("Message | Episode | Knowledge", stored)
                assert record.scope is not None
                row = encode_terms(record) | {"doc": doc, "user_id": record.scope.user_id}
                connection.execute(add_terms, row)
                done += 1
                if done % _TOLD == 0:
                    _log.info("bringing the text index to its new form: %d records so far", done)
            after = batch[-1][0]


_STEPS: Mapping[int, Callable[[apsw.Connection], None]] = {2: _analyse_everything}
