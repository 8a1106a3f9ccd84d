"""What single pages say: SQL, a backup and a script that run, and what becomes of sentences."""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import yaml
from postgres_server import EMPTY

import jiyi
from jiyi.databases import check_database
from jiyi.long_term.facts.merge import Learned
from jiyi.records import Fact, Scope
from jiyi.testing import HashEmbedder

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "postgres.md", ROOT / "docs" / "zh" / "postgres.md"]
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, info: str) -> list[str]:
    return [match[2] for match in FENCE.finditer(page.read_text("utf-8")) if match[1] == info]


@pytest.fixture
def filled(postgres_url):
    with jiyi.open(postgres_url, embedder=HashEmbedder(), background=False) as memory:
        for content in ("nginx 又 502 了", "still to be embedded"):
            memory.flush()
            for user in ("ana", "ben"):
                memory.save_message("s", role="user", content=content, user_id=user)
    return postgres_url


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_the_queries_run_as_the_plain_role(page, filled):
    found = blocks(page, "sql")
    assert len(found) >= 6
    with psycopg.connect(filled) as server:
        answers = [server.execute(block.encode()).fetchall() for block in found[:4]]
        assert answers[0], "somebody is connected"
        assert {row[0] for row in answers[2]} >= {"documents", "vectors", "pending"}
        assert server.execute("SELECT count(*) FROM pending").fetchone() == (0,), "the wall stands"
        first, second = found[4].strip().split("\n", 1)
        server.execute(first.encode())
        assert server.execute(second.encode()).fetchone()[0] == 2
        assert server.execute(found[5].encode()).fetchall() == [("ana", 2), ("ben", 2)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_the_orders_of_a_superuser_run_and_the_role_they_make_is_enough(page, filled, postgres_server):
    name = urlsplit(filled).path[1:]
    with psycopg.connect(postgres_server.url_of(name, superuser=True), autocommit=True) as server:
        for block in blocks(page, "sql superuser"):
            for order in block.replace("FOR ROLE jiyi", f"FOR ROLE {postgres_server.role}").split(";"):
                if order.strip():
                    server.execute(order.encode())
        try:
            parts = urlsplit(filled)
            app = filled.replace(f"{parts.username}:{parts.password}@", "app:change%20me@")
            with jiyi.open(
                app, user_id="ana", embedder=HashEmbedder(), background=False, migrate_on_open=False
            ) as memory:
                memory.save_message("s", role="user", content="by the app")
                assert "by the app" in [hit.text for hit in memory.search("app")]
                assert memory.forget("502").total == 1
        finally:
            server.execute("DROP OWNED BY app")
            server.execute("DROP ROLE app")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_a_backup_by_the_plain_role_comes_back_whole(page, filled, postgres_server, tmp_path):
    dump, restore, look = blocks(page, "bash")
    new = postgres_server.make(EMPTY)
    path = os.pathsep.join(
        [str(postgres_server.programs), str(Path(sys.executable).parent), os.environ["PATH"]]
    )
    env = os.environ | {"JIYI_DATABASE_URL": filled, "NEW_URL": new, "PATH": path}
    for words in (dump, restore):
        done = subprocess.run(
            ["/bin/sh", "-ec", words], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert check_database(new).partition(" is ")[2] == check_database(filled).partition(" is ")[2]
    for user in ("ana", "ben"):
        with jiyi.open(new, user_id=user, embedder=HashEmbedder(), background=False) as memory:
            assert memory.stats()["vectors_pending"] == 1
            assert memory.search("502")[0].text == "nginx 又 502 了"
    assert look.startswith("jiyi doctor")
    postgres_server.drop(new)


def test_the_script_for_a_new_server_makes_role_database_and_extension(postgres_server):
    """On the throwaway server the names are taken, so they are replaced by others."""
    name = f"made_{os.getpid()}"
    script = (ROOT / "deploy" / "postgres" / "jiyi.sql").read_text("utf-8")
    script = re.sub(r"\b(ROLE|DATABASE|OWNER|connect) jiyi\b", rf"\1 {name}", script)
    assert script.count(name) == 4
    psql = [postgres_server.programs / "psql", "--no-psqlrc", "--quiet", postgres_server.superuser_url]
    env = {key: value for key, value in os.environ.items() if key != "JIYI_PASSWORD"}

    def run(**more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(psql, input=script, env=env | more, capture_output=True, text=True, check=False)

    refused = run()
    assert refused.returncode != 0
    assert "set JIYI_PASSWORD" in refused.stderr
    try:
        assert run(JIYI_PASSWORD='it\'s a \\ "secret"').stderr == ""
        with psycopg.connect(postgres_server.url_of(name, superuser=True)) as server:
            row = server.execute("SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = %s", [name])
            assert row.fetchone() == (False, False)
        server = urlsplit(postgres_server.superuser_url)
        with psycopg.connect(
            host=server.hostname, port=server.port, dbname=name, user=name, password='it\'s a \\ "secret"'
        ) as database:
            assert database.execute("SELECT '[1]'::halfvec::text").fetchone() == ("[1]",)
    finally:
        with psycopg.connect(postgres_server.superuser_url, autocommit=True) as server:
            server.execute(f"DROP DATABASE IF EXISTS {name}".encode())
            server.execute(f"DROP ROLE IF EXISTS {name}".encode())


def test_the_compose_file_uses_that_script_and_shows_nothing_to_the_net():
    service = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]["postgres"]
    assert service["image"].startswith("pgvector/pgvector:pg")
    assert "./deploy/postgres:/docker-entrypoint-initdb.d:ro" in service["volumes"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert {"POSTGRES_PASSWORD", "JIYI_PASSWORD"} == set(service["environment"])
    assert service["healthcheck"]["test"][1] == "pg_isready"


DOCS = Path(__file__).parents[2] / "docs"
FACTS = {
    "facts.md": {"ends": "ends", "back": "takes back", "until": "until", "none": "nothing"},
    "zh/facts.md": {"ends": "取代", "back": "收回", "until": "到", "none": "无"},
}
HEADS = ("said by Ana", "Ana 说")
ANA = Scope(user_id="ana", session_id="s")


def rows_of(page: str) -> list[tuple[str, str]]:
    """Return the rows of a page's table, a path from docs/."""
    lines = (DOCS / page).read_text("utf-8").splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(tuple(f"| {h} |" for h in HEADS)))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        said, became = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append((said, became))
    return rows


@pytest.fixture
def say(facts_day_by_day):
    memory, learn = facts_day_by_day

    def said(text: str) -> tuple[Learned, dict[str, Fact]]:
        by = {"role": "assistant", "name": None} if text.startswith("[assistant] ") else {}
        learned = learn(text.removeprefix("[assistant] "), **by)
        known = memory.facts(ANA, status=["active", "superseded", "retracted", "expired"], limit=1_000)
        return learned, {fact.id: fact for fact in known}

    return said


def shown(fact: Fact, words: dict[str, str]) -> str:
    if fact.category in ("plan", "todo", "rule"):
        return f"{fact.category}: {fact.object}"
    end = fact.valid_to if fact.status == "active" and not fact.superseded_by else None
    return fact.line + (f" ({words['until']} {end.date()})" if end else "")


@pytest.mark.parametrize("page", FACTS)
def test_the_table_says_what_becomes_of_sentences(page, say):
    words = FACTS[page]
    rows = rows_of(page)
    assert len(rows) >= 40
    found: list[tuple[str, str]] = []
    known_active: set[str] = set()
    for text, _ in rows:
        learned, known = say(text)
        active, known_active = known_active, {i for i, fact in known.items() if fact.status == "active"}
        parts = [shown(known[id_], words) for id_ in learned.new]
        over = [id_ for id_, fact in known.items() if fact.status == "expired" and id_ in active]
        parts += [f"{words['ends']} {known[id_].line}" for id_ in (*learned.superseded, *over)]
        parts += [f"{words['back']} {known[id_].line}" for id_ in learned.retracted]
        found.append((text, "; ".join(parts) or words["none"]))
    assert found == rows


@pytest.mark.parametrize(
    ("readme", "page"), [("../README.md", "facts.md"), ("../README.zh.md", "zh/facts.md")]
)
def test_the_readmes_show_rows_of_it(readme, page):
    rows = rows_of(readme)
    assert len(rows) == 10
    assert set(rows) <= set(rows_of(page))
