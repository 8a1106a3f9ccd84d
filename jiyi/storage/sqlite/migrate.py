"""Migration of a SQLite file to the newest schema: scripts, then steps that derive data."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import cast

import apsw

from jiyi.errors import ForeignDatabase, NewerDatabase
from jiyi.forks import quiet
from jiyi.records import Episode, Kind, Searchable
from jiyi.storage.damage import DamageLog
from jiyi.storage.relational.find import decode_rows
from jiyi.storage.search.postings import encode_terms
from jiyi.storage.sql import MIGRATION_SECONDS, load_migrations, load_queries
from jiyi.storage.sqlite.connection import SqliteConnection, fill_checksums
from jiyi.storage.sqlite.file import refuse_foreign
from jiyi.text.keys import entity_key
from jiyi.text.traits import traits

_OLDEST: tuple[Kind, ...] = ("message", "episode", "knowledge")  # the kinds of the old schemas
_BATCH = 100  # records read at once
_LOG_STEP = 10_000  # records between two lines in the log

_log = logging.getLogger("jiyi")


def pending_steps(path: Path) -> list[str]:
    """Return the migration steps that opening a file would run, none if it is up to date.

    Raises `NewerDatabase` if this jiyi does not know its schema, `ForeignDatabase` if it is not jiyi's.
    """
    refuse_foreign(path)
    newest = len(load_migrations("sqlite"))
    if not path.exists():
        return [f"make the file with schema {newest}"]
    try:
        with quiet, closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            version = check_version(connection, path)
    except apsw.Error as error:
        raise ForeignDatabase(f"{path} cannot be read as a database: {error}; name another file") from error
    return [f"schema {number - 1} to {number}" for number in range(version + 1, newest + 1)]


def migrate(connection: apsw.Connection, path: Path) -> None:
    """Migrate a file in one transaction: it ends at the newest schema or stays as it was.

    If another process writes to the file, it waits `MIGRATION_SECONDS`, however short its busy timeout.
    """
    migrations = load_migrations("sqlite")
    if check_version(connection, path) == len(migrations):
        return
    wait_for_file(partial(connection.execute, "BEGIN IMMEDIATE"), MIGRATION_SECONDS)
    try:
        missing = range(check_version(connection, path) + 1, len(migrations) + 1)
        for number in missing:
            connection.execute(migrations[number])
        # The following steps use the ordinary statements, which need the newest schema.
        if 9 in missing:
            fill_checksums(connection)  # first, because rows without one are not read
        if 3 in missing:
            _fill_in(connection, analyse=2 in missing)
        connection.execute(f"PRAGMA user_version={len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def wait_for_file(run: Callable[[], object], seconds: float) -> None:
    """Call a function again and again while another process uses the file."""
    deadline = time.monotonic() + seconds
    while True:  # one long busy timeout could not be interrupted by Ctrl-C
        try:
            run()
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def check_version(connection: apsw.Connection, path: Path) -> int:
    """Return the schema number of a file; raise `NewerDatabase` if this jiyi does not know it."""
    version, newest = int(connection.pragma("user_version")), len(load_migrations("sqlite"))
    if version > newest:
        advice = "upgrade with: pip install --upgrade jiyi"
        raise NewerDatabase(f"{path} has schema {version}, this jiyi knows {newest}; {advice}")
    return version


def _fill_in(connection: apsw.Connection, *, analyse: bool) -> None:
    """Fill columns that older schemas lack: owners and targets of episodes, sources, terms or traits."""
    queries = load_queries("sqlite")
    connection.execute(queries["fill_owner_of_episodes"])
    connection.execute(queries["fill_sources"])
    for doc, record in _every_record(connection):
        assert record.scope is not None
        if analyse:
            terms = encode_terms(record) | {"doc": doc, "user_id": record.scope.user_id}
            connection.execute(queries["add_terms"], terms)
        else:
            bits = int(traits(record.search_text))
            connection.execute(queries["fill_traits"], {"doc": doc, "traits": bits})
        if isinstance(record, Episode):
            key = entity_key(record.target or "")
            connection.execute(queries["fill_target"], {"doc": doc, "target_key": key})
    connection.execute(queries["bump_every_generation"])


def _every_record(connection: apsw.Connection) -> Iterator[tuple[int, Searchable]]:
    """Yield the records of all users with their numbers; log the progress on a large file."""
    db, done = SqliteConnection(connection, DamageLog()), 0
    for kind in _OLDEST:
        after = 0
        find = partial(db.records, f"find_{kind}", where="d.doc > :after", order="ASC", by="d.doc")
        while batch := find({"after": after, "limit": _BATCH}):
            for record, row in decode_rows(db, kind, batch):
                yield row["doc"], cast("Searchable", record)
            after, before = batch[-1]["doc"], done
            done += len(batch)
            if done // _LOG_STEP > before // _LOG_STEP:
                _log.info("bringing the file to its new form: %d records so far", done)
