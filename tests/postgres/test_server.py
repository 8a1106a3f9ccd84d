"""A server of one's own: made once, kept, closed to others, and told apart from other people's."""

import json
import os
import shutil
import stat
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psutil
import psycopg
import pytest
from refusing import raises, refused

from jiyi.errors import SettingsError, StorageError
from jiyi.storage.postgres.server import LocalServer, ServerRuns, _free_port

pytestmark = pytest.mark.slow
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as somebody else")


@pytest.fixture
def folder(passable_folder):
    return passable_folder / "server"


@pytest.fixture
def server(folder, postgres_server):
    with LocalServer(folder, programs=postgres_server.programs) as server:
        yield server


def asked(url: str, query: str) -> tuple:
    with psycopg.connect(url) as connection:
        return connection.execute(query.encode()).fetchone()


def test_it_is_ready_for_a_plain_role_with_the_extension_and_closed_to_other_machines(server):
    assert asked(server.url, "SELECT current_user, current_database()") == ("jiyi", "jiyi")
    rights = "SELECT rolsuper, rolbypassrls, rolcreaterole FROM pg_roles WHERE rolname = current_user"
    assert asked(server.url, rights) == (False, False, False)
    assert asked(server.url, "SELECT '[1,2]'::halfvec <=> '[1,2]'::halfvec") == (0.0,)
    assert asked(server.superuser_url, rights)[0] is True
    # It listens on this machine only, and asks for a password.
    assert asked(server.superuser_url, "SHOW listen_addresses") == ("127.0.0.1",)
    (password,) = asked(server.superuser_url, "SELECT rolpassword FROM pg_authid WHERE rolname = 'jiyi'")
    assert password.startswith("SCRAM-SHA-256$")
    parts = urlsplit(server.url)
    for netloc in (f"jiyi:wrong@127.0.0.1:{parts.port}", f"jiyi@127.0.0.1:{parts.port}"):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(urlunsplit(parts._replace(netloc=netloc)))
    by_socket = {"host": str(server.folder / "data"), "port": parts.port}
    with psycopg.connect(**by_socket, user="jiyi", password=parts.password, dbname="jiyi") as connection:
        assert connection.execute("SELECT inet_server_addr()").fetchone() == (None,)


def test_what_is_secret_is_closed_to_others(server):
    for name in ("server.json", "server.log", "lock"):
        assert stat.S_IMODE((server.folder / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE((server.folder / "data").stat().st_mode) == 0o700
    assert {f.name for f in server.folder.iterdir()} == {"data", "lock", "server.json", "server.log"}
    password = json.loads((server.folder / "server.json").read_text())["jiyi"]
    assert len(password) >= 32
    words = psutil.Process(server.pid).cmdline()
    assert not any(password in word for word in words)
    assert password not in server.log.read_text()


def test_it_keeps_data_port_and_password_over_a_restart(server, folder):
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1")
    url, pid = server.url, server.pid
    server.stop()
    server.stop()
    assert server.pid is None
    assert not psutil.pid_exists(pid)
    with LocalServer(folder, programs=server.programs) as again:
        assert again.url == url
        assert asked(url, "SELECT count(*) FROM kept") == (1,)
        again.start()
        assert again.pid is not None


def test_a_second_one_says_where_the_first_is(server, folder):
    with pytest.raises(ServerRuns, match=f"runs on {folder} already, as process {server.pid}") as caught:
        LocalServer(folder, programs=server.programs).start()
    assert (caught.value.url, caught.value.pid) == (server.url, server.pid)
    assert asked(server.url, "SELECT 1") == (1,), "the first one is not disturbed"
    os.close(server._lock)  # as when the process that started it is killed
    server._lock = None
    raises(ServerRuns, LocalServer(folder, programs=server.programs).start)


def test_a_port_that_is_taken_is_told(server, folder):
    other = LocalServer(folder.with_name("other"), port=urlsplit(server.url).port, programs=server.programs)
    refused(StorageError, r"(?s)port \d+: .*Address already in use", other.start)


def test_a_port_can_be_named_and_is_kept(server, folder):
    server.stop()
    port = _free_port()
    with LocalServer(folder, port=port, programs=server.programs) as moved:
        assert urlsplit(moved.url).port == port
    with LocalServer(folder, programs=server.programs) as again:
        assert urlsplit(again.url).port == port


def test_a_server_that_does_not_start_says_why(server, folder):
    server.stop()
    with pytest.raises(StorageError, match=r"did not start .*shared_buffers"):
        LocalServer(folder, programs=server.programs, options={"shared_buffers": "nonsense"}).start()
    with LocalServer(folder, programs=server.programs) as again:
        assert asked(again.url, "SELECT 1") == (1,)


def test_data_of_another_version_and_data_without_the_password_are_refused(server, folder):
    server.stop()
    version = folder / "data" / "PG_VERSION"
    mode = version.read_text()
    version.write_text("14\n")
    caught = r"(?s)did not start .*version 14, which is not compatible with this version 1\d"
    refused(StorageError, caught, LocalServer(folder, programs=server.programs).start)
    version.write_text(mode)
    (folder / "server.json").unlink()
    with pytest.raises(StorageError, match=r"server\.json; it holds the password"):
        LocalServer(folder, programs=server.programs).start()


def test_a_break_while_the_data_are_made_leaves_nothing_half_made(folder, postgres_server, monkeypatch):
    def broken(self, program, *arguments):
        if program == "initdb":
            Path(arguments[1], "PG_VERSION").write_text("18")
            raise KeyboardInterrupt
        return real(self, program, *arguments)

    real = LocalServer.run
    monkeypatch.setattr(LocalServer, "run", broken)
    raises(KeyboardInterrupt, LocalServer(folder, programs=postgres_server.programs).start)
    assert not (folder / "data").exists()
    monkeypatch.undo()
    with LocalServer(folder, programs=postgres_server.programs) as server:
        assert asked(server.url, "SELECT 1") == (1,)


@as_root
def test_a_closed_folder_on_the_way_is_named(tmp_path, postgres_server):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(StorageError, match=f"{closed}.*Permission denied"):
        LocalServer(closed / "server", programs=postgres_server.programs).start()
    with pytest.raises(StorageError, match=f"cannot be started: .*Permission denied.*{closed}"):
        LocalServer(tmp_path / "server", programs=_closed(postgres_server.programs, closed)).start()


def _closed(programs, folder):
    shutil.copy(programs / "initdb", folder)
    return folder


@as_root
@pytest.mark.parametrize(
    ("name", "reason"), [("nobody-at-all", "no system user"), ("root", "refuses to run as root")]
)
def test_a_user_who_cannot_be_had_is_refused(folder, name, reason):
    refused(SettingsError, reason, LocalServer, folder, run_as=name)


@as_root
def test_the_server_runs_as_the_user_named(folder, postgres_server):
    with LocalServer(folder, run_as="nobody", programs=postgres_server.programs) as server:
        assert psutil.Process(server.pid).username() == "nobody"
        server.stop()
        with LocalServer(folder, programs=postgres_server.programs) as again:  # whose they are is remembered
            assert psutil.Process(again.pid).username() == "nobody"


@as_root
def test_a_user_without_privileges_runs_it_as_himself(folder, postgres_server):
    folder.mkdir()
    shutil.chown(folder, "nobody")
    child = os.fork()
    if child == 0:  # in this interpreter, for another may lie where that user cannot go
        code = 1
        try:
            os.setgroups([])
            os.setgid(folder.stat().st_gid)
            os.setuid(folder.stat().st_uid)
            with LocalServer(folder, programs=postgres_server.programs) as server:
                name = psutil.Process(server.pid).username()
                code = 0 if (name, asked(server.url, "SELECT 1")) == ("nobody", (1,)) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert {path.owner() for path in folder.iterdir()} == {"nobody"}
