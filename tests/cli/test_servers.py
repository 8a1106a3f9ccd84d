"""A URL in place of a file: every command, what is missing said, and no password shown."""

from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from jiyi.errors import JiyiError
from jiyi.telling import mask


@pytest.fixture
def url(empty_postgres_url):
    """A database without tables."""
    assert len(str(urlsplit(empty_postgres_url).password)) > 20
    return empty_postgres_url


@pytest.fixture
def run(run, url):
    """Run a command and make sure that the password stayed in the dark."""

    def checked(*words: object, code: int = 0):
        result = run(*words, code=code)
        assert str(urlsplit(url).password) not in result.output
        return result

    return checked


@pytest.fixture
def filled(url, open_memory):
    with open_memory(url) as memory:
        memory.save_message("s1", role="user", content="nginx 又 502 了", id="m-1")
        memory.save_message("s1", role="user", content="pay-gw's port changed from 8443 to 9443.")
        task = memory.start_task("s1", "restart nginx", target="edge-01")
        memory.complete_task(task.id, summary="it is back")
        memory.flush()
    return url


def tables(url: str) -> int:
    words = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    with psycopg.connect(url) as server:
        return server.execute(words).fetchone()[0]


def elsewhere(url: str, **parts: object) -> str:
    """Return a URL with another role, password, port or database."""
    old = urlsplit(url)
    given = {"role": old.username, "password": old.password, "port": old.port} | parts
    netloc = f"{given['role']}:{given['password']}@{old.hostname}:{given['port']}"
    return urlunsplit(old._replace(netloc=netloc, path=f"/{parts.get('name', old.path[1:])}"))


@pytest.mark.slow
def test_what_is_remembered_can_be_listed_and_forgotten(run, run_json, filled, tmp_path):
    assert [fact["object"] for fact in run_json("facts", "--db", filled)] == ["9443"]
    assert len(run_json("episodes", "--db", filled)) == len(run_json("tasks", "--db", filled)) == 1
    assert f"--db '{mask(filled)}'" in run("forget", "--id", "m-1", "--yes", "--db", filled).stdout
    assert run_json("stats", "--db", filled)["message"] == 1
    assert "ana:" in run("maintain", "--dry-run", "--db", filled).stdout
    assert run_json("export", tmp_path / "all.jsonl", "--db", filled)["counts"]["fact"] == 1
    assert run("context", "s1", "--db", filled).stdout


@pytest.mark.parametrize("words", ["stats", "search x", "show", "context s1", "maintain", "facts"])
def test_looking_at_a_memory_makes_none(run, url, words):
    complaint = run(*words.split(), "--db", url, code=1).stderr
    assert "there is no memory in postgresql://jiyi:***@" in complaint
    assert "jiyi migrate --db" in complaint
    assert tables(url) == 0


def test_the_setting_is_the_database_if_nothing_nearer_is(run, run_json, filled, db, tmp_path, monkeypatch):
    monkeypatch.setenv("JIYI_DATABASE_URL", filled)
    assert run_json("stats")["message"] == 2
    assert run_json("stats", "--db", db)["message"] == 6
    monkeypatch.setenv("JIYI_DB", str(db))
    assert run_json("stats")["message"] == 6
    monkeypatch.delenv("JIYI_DATABASE_URL")
    monkeypatch.delenv("JIYI_DB")
    (tmp_path / "jiyi.toml").write_text(f'database_url = "{filled}"\n')
    assert run_json("stats")["message"] == 2


@pytest.mark.parametrize("words", ["stats", "search x", "migrate", "migrate --dry-run", "maintain", "doctor"])
def test_a_server_that_is_not_there_is_told_without_the_password(run, url, words):
    for part in ({"port": 1}, {"name": "nobody_has_this"}, {"password": "wrong"}):
        result = run(*words.split(), "--db", elsewhere(url, **part), code=1)
        assert "postgresql://jiyi:***@" in result.output
        assert "wrong@" not in result.output


def test_the_demo_and_the_doctor_make_no_tables(run, url):
    assert "takes a file only, not postgresql://jiyi:***@" in run("demo", "--db", url, code=1).stderr
    assert tables(url) == 0
    assert "has no memory yet; make its tables: jiyi migrate" in run("doctor", "--repair", "--db", url).stdout
    assert tables(url) == 0


@pytest.mark.parametrize(
    "bad", ["postgresql://jiyi:a@s3cret@nowhere.invalid/x", "postgresql://jiyi:s3cret@host:port/x"]
)
def test_an_unusable_url_does_not_show_the_password(run, bad):
    assert "s3cret" not in run("stats", "--db", bad, code=2).output
    assert "s3cret" not in run("stats", "--db", bad.replace("postgresql", "mysql"), code=2).output


def test_migrate_makes_the_tables_once(run, run_json, url):
    planned = run_json("migrate", "--dry-run", "--db", url)
    assert planned["dry_run"] is True
    assert planned["steps"]
    assert tables(url) == 0
    assert "would be done: " in run("migrate", "--dry-run", "--db", url).stdout
    assert run_json("migrate", "--db", url)["steps"] == planned["steps"]
    assert tables(url) > 5
    assert "is up to date" in run("migrate", "--db", url).stdout
    assert run_json("migrate", "--db", url)["steps"] == []


def test_a_role_that_may_not_make_tables_is_told_what_to_run(run, url, open_memory, monkeypatch):
    monkeypatch.setenv("JIYI_MIGRATE_ON_OPEN", "false")
    with pytest.raises(JiyiError, match="jiyi migrate"):
        open_memory(url)
    assert tables(url) == 0
    run("migrate", "--db", url)
    with open_memory(url) as memory:
        memory.save_message("s", role="user", content="x")


def test_migrate_makes_the_index_for_approximate_search(run, run_json, filled):
    [step] = run_json("migrate", "--vector-index", "--db", filled)["steps"]
    assert step
    with psycopg.connect(filled) as server:
        [(definition,)] = server.execute("SELECT indexdef FROM pg_indexes WHERE indexdef LIKE '%hnsw%'")
    assert "halfvec(64)" in definition
    assert run_json("search", "502", "--db", filled)["hits"][0]["id"] == "m-1"


def test_migrate_brings_a_file_up(run, run_json, db, tmp_path):
    assert run_json("migrate", "--db", db)["steps"] == []
    new = tmp_path / "new.db"
    assert "make the file with schema" in run_json("migrate", "--dry-run", "--db", new)["steps"][0]
    assert not new.exists()
    assert "make the file" in run("migrate", "--db", new).stdout
    assert "is up to date" in run("migrate", "--db", new).stdout
    for option in ("--distribute", "--vector-index"):
        assert "is a file" in run("migrate", option, "--db", new, code=1).stderr
    foreign = tmp_path / "notes.txt"
    foreign.write_text("my notes " * 50)
    assert "name another file" in run("migrate", "--dry-run", "--db", foreign, code=1).stderr


def checks(told: dict) -> dict[str, dict]:
    return {check["name"]: check for check in told["checks"]}


def test_doctor_says_what_the_server_is(run, run_json, filled):
    told = run_json("doctor", "--db", filled)
    assert told["ok"] is True
    found = checks(told)
    assert found["server"]["detail"].startswith("PostgreSQL 1")
    assert found["pgvector"]["detail"][0].isdigit()
    assert found["wall"]["detail"].startswith("row level security holds for the role jiyi")
    assert "is sound: 1 user," in found["database"]["detail"]
    assert "repair" not in found
    assert checks(run_json("doctor", "--repair", "--db", filled))["repair"]["detail"] == "nothing to repair"


def test_doctor_warns_of_a_role_that_passes_the_wall(run_json, filled, postgres_server):
    superuser = postgres_server.url_of(urlsplit(filled).path[1:], superuser=True)
    found = checks(run_json("doctor", "--db", superuser, code=1))
    assert found["wall"]["ok"] is False
    assert "BYPASSRLS" in found["wall"]["fix"]
    assert [name for name, check in found.items() if not check["ok"]] == ["wall"]


def test_doctor_says_when_the_extension_is_missing(run_json, postgres_server):
    bare = postgres_server.make(None)
    found = checks(run_json("doctor", "--db", bare, code=1))
    assert found["pgvector"]["detail"] == "not in this database"
    assert "CREATE EXTENSION vector" in found["pgvector"]["fix"]
    postgres_server.drop(bare)


def test_doctor_warns_when_the_pool_is_larger_than_the_server(run_json, filled, monkeypatch):
    monkeypatch.setenv("JIYI_POOL_MAX", "900")
    found = checks(run_json("doctor", "--db", filled, code=1))
    assert "a memory takes up to 900" in found["server"]["detail"]
    assert found["server"]["ok"] is False
