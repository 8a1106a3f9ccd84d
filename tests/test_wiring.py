"""Opening files and servers: URLs, embedders that do not fit, and nothing left behind by a failure."""

import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from at_once import wait_until
from other_processes import run_apart
from refusing import raises, refused
from tables import literals, read_tables
from uses import uses

import jiyi
from jiyi.databases import check_database, database_exists, list_users
from jiyi.errors import DatabaseUnreachable, EmbedderMismatch, MissingExtra, SettingsError, StorageError
from jiyi.long_term import ForgetRule
from jiyi.settings import load_settings
from jiyi.testing import HashEmbedder, ManualClock


def test_the_ways_to_name_a_file(tmp_path, monkeypatch, open_memory):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for url, name in {
        "plain.db": "plain.db",
        str(tmp_path / "absolute.db"): "absolute.db",
        Path("path.db"): "path.db",
        "sqlite:///relative.db": "relative.db",
        f"sqlite:///{tmp_path}/four slashes.db": "four slashes.db",
        "~/home.db": "home.db",
        "sqlite:///~/tilde.db": "tilde.db",
        "记忆.db": "记忆.db",
    }.items():
        open_memory(url).save_message("s", role="user", content="x")
        assert (tmp_path / name).is_file(), url


@pytest.mark.parametrize("url", literals(read_tables(__file__)["urls that name nothing"]))
def test_urls_that_name_nothing_are_refused(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    raises(SettingsError, jiyi.open, url, user_id="ana", embedder=HashEmbedder())
    assert list(tmp_path.iterdir()) == []


def test_another_embedder_is_refused_with_the_way_out(open_memory):
    with open_memory() as memory:
        memory.save_message("s", role="user", content="x")
        with open_memory(embedder=HashEmbedder(dims=32)) as other:
            assert other.stats()["message"] == 1, "nothing is embedded yet, so nothing is bound"
        memory.flush()
    with pytest.raises(EmbedderMismatch, match=r"hash:64 .*jiyi reembed --db .*agent\.db"):
        open_memory(embedder=HashEmbedder(dims=32))
    with open_memory(embedder=HashEmbedder(dims=32), check_embedder=False) as memory:
        assert "text search only" in memory.search("x").notes[0]
        assert memory.reembed() == 1
        assert memory.search("x").notes == ()
    with open_memory(embedder=HashEmbedder(dims=32)) as memory:
        assert memory.search("x")[0].why.keys() >= {"first_by_words", "first_by_meaning"}


def test_a_failed_open_leaves_no_thread_and_no_lock(path, open_memory):
    before = threading.active_count()
    for options in ({"embedder": HashEmbedder(dims=32)}, {"max_turns": 0}, {"model": ""}, {"colour": "red"}):
        with open_memory() as memory:
            memory.save_message("s", role="user", content="x")
            memory.flush()
        raises(jiyi.JiyiError, open_memory, background=True, **options)
    assert threading.active_count() == before
    path.rename(path.with_suffix(".moved"))
    open_memory(path.with_suffix(".moved")).save_message("s", role="user", content="y")


def test_settings_and_scope_reach_the_parts(open_memory):
    clock = ManualClock()
    memory = open_memory(agent_id="ops", clock=clock, max_turns=1, max_input_tokens=300, language="zh")
    for i in range(3):
        saved = memory.save_message("s", role="user", content=f"turn {i}")
    assert (saved.created_at, saved.scope.agent_id) == (clock(), "ops")
    assert [m.content for m in memory.recent_messages("s")] == ["turn 2"]
    window = memory.build_context("s", "turn?")
    assert window.report.budget.max_input_tokens == 300
    assert "当前问题" in window.markdown


def test_a_closed_memory_says_so(open_memory, place, path):
    memory = open_memory(place, background=True)
    memory.close()
    memory.close()
    every = uses(memory, path.with_name("never.jsonl"))
    for use in (*every, memory.flush, lambda: memory.forget("x", purge=True)):
        refused(StorageError, "closed", use)
    assert list(path.parent.iterdir()) == [path] * (place == path)


def test_the_parts_of_its_life_share_a_clock_a_zone_and_a_rule(open_memory):
    class Strict(ForgetRule):
        def importance(self, record, now):
            return 0.0 if now == clock() else 1.0

    clock = ManualClock(datetime(2026, 1, 31, 20, tzinfo=UTC))  # in Shanghai it is February
    memory = open_memory(clock=clock, timezone="Asia/Shanghai", forget_rule=Strict(min_age=timedelta(0)))
    memory.complete_task(memory.start_task("s", "restart").id)
    memory.save_message("s", role="user", content="从明天起 edge-02 的端口改成 8444")
    (fact,) = memory.facts()
    assert fact.created_at == clock()
    assert fact.valid_from == datetime(2026, 2, 1, 16, tzinfo=UTC), "midnight there"
    clock.forward(days=1)
    receipt = memory.run_forget_gate()
    assert (receipt.at, receipt.total) == (clock(), 2)


def test_the_bundled_model_brings_back_what_shares_no_word_with_the_question(path):
    with jiyi.open(path, user_id="ana") as memory:
        memory.save_message("s", role="user", content="我家的猫昨天生病了，去看了兽医")
        memory.save_message("s", role="user", content="The server certificate expires on Friday")
        memory.save_message("s", role="user", content="午饭吃了面条")
        memory.flush()
        assert "certificate" in memory.search("when must I renew TLS?", limit=1)[0].text
        assert "猫" in memory.search("宠物身体不舒服", limit=1)[0].text


LOADING = """
import sys, threading, jiyi
from jiyi.testing import HashEmbedder
def loads(**options):
    with jiyi.open(sys.argv[1], user_id="ana", **options):
        return "jiyi-e5-load" in {thread.name for thread in threading.enumerate()}
assert not loads(background=False)
assert loads()
for thread in threading.enumerate():
    if thread.name == "jiyi-e5-load":
        thread.join()
assert not loads(), "it is there already"
assert "onnxruntime" in sys.modules
"""

NOT_LOADING = """
import sys, threading, jiyi
from jiyi.testing import HashEmbedder
with jiyi.open(sys.argv[1], user_id="ana", embedder=HashEmbedder()):
    assert "jiyi-e5-load" not in {thread.name for thread in threading.enumerate()}
    assert "onnxruntime" not in sys.modules
"""


@pytest.mark.slow
@pytest.mark.parametrize("code", [LOADING, NOT_LOADING], ids=["bundled", "own"])
def test_opening_loads_the_bundled_model_in_the_background_where_it_is_used(path, code):
    run_apart(code, path)


def connections(url: str) -> int:
    """Count who else is connected to a database."""
    others = "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    with psycopg.connect(url) as server:
        return server.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {others}").fetchone()[0]


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_url_opens_the_server(empty_postgres_url, open_memory, scheme):
    url = empty_postgres_url.replace("postgresql", scheme, 1)
    assert not database_exists(url)
    with open_memory(url) as memory:
        memory.save_message("s", role="user", content="nginx 又 502 了")
        memory.flush()
        assert memory.search("502")[0].text == "nginx 又 502 了"
        assert memory.search("502", user_id="ben").hits == ()
    assert database_exists(url)
    assert list_users(url) == ["ana"]
    assert check_database(url).endswith("is sound: 1 user, 1 record, 0 without vectors yet")
    wait_until(lambda: connections(url) == 0)


async def test_the_awaited_verbs_take_a_url_too(postgres_url):
    async with jiyi.open_async(postgres_url, user_id="ana", embedder=HashEmbedder()) as memory:
        await memory.save_message("s", role="user", content="x")
        assert (await memory.stats())["message"] == 1


def test_without_a_url_the_setting_names_the_place(postgres_url, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chosen = {"user_id": "ana", "embedder": HashEmbedder(), "background": False}
    with pytest.raises(
        SettingsError, match=r'where is the memory\? .*jiyi\.open\("agent\.db"\).*JIYI_DATABASE_URL'
    ):
        jiyi.open(**chosen)
    monkeypatch.setenv("JIYI_DATABASE_URL", postgres_url)
    with jiyi.open(**chosen) as memory:
        memory.save_message("s", role="user", content="on the server")
    with jiyi.open(path, **chosen) as memory:
        assert memory.stats()["message"] == 0, "what is given goes before the setting"
    with jiyi.open(**chosen, database_url=str(path)) as memory:
        assert memory.stats()["message"] == 0
    monkeypatch.delenv("JIYI_DATABASE_URL")
    (tmp_path / "jiyi.toml").write_text(f'database_url = "{postgres_url}"\n')
    with jiyi.open(**chosen) as memory:
        assert memory.stats()["message"] == 1


def test_a_missing_driver_is_named_and_neither_settings_nor_a_dead_server_tell_the_password(monkeypatch):
    for module in ("psycopg", "psycopg_pool"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(MissingExtra, match=r'pip install "jiyi\[postgres\]"'):
                jiyi.open("postgresql://ana@db/jiyi", user_id="ana", embedder=HashEmbedder())
    settings = load_settings(database_url="postgresql://ana:s3cret@db/jiyi")
    assert "s3cret" not in f"{settings!r} {settings} {settings.model_dump_json()}"
    before, started = threading.active_count(), time.monotonic()
    with pytest.raises(DatabaseUnreachable, match=r"postgresql://ana:\*\*\*@127\.0\.0\.1:1/jiyi") as refused:
        jiyi.open("postgresql://ana:s3cret@127.0.0.1:1/jiyi", user_id="ana", embedder=HashEmbedder())
    assert "s3cret" not in str(refused.value)
    assert time.monotonic() - started < 10
    assert threading.active_count() == before


def test_a_failed_open_leaves_no_thread_and_no_connection(postgres_url, open_memory):
    with open_memory(postgres_url) as memory:
        memory.save_message("s", role="user", content="x")
        memory.flush()
    wait_until(lambda: not any("pool" in thread.name for thread in threading.enumerate()))
    before = threading.active_count()
    with pytest.raises(EmbedderMismatch, match=r"jiyi reembed --db .*jiyi:\*\*\*@") as refused:
        open_memory(postgres_url, embedder=HashEmbedder(dims=32), background=True)
    assert str(urlsplit(postgres_url).password) not in str(refused.value)
    wait_until(lambda: threading.active_count() <= before)
    wait_until(lambda: connections(postgres_url) == 0)


def test_tables_are_left_alone_where_that_is_set(empty_postgres_url, open_memory):
    refused(StorageError, "jiyi migrate", open_memory, empty_postgres_url, migrate_on_open=False)
    assert not database_exists(empty_postgres_url)
    open_memory(empty_postgres_url).close()
    with open_memory(empty_postgres_url, migrate_on_open=False) as memory:
        memory.save_message("s", role="user", content="x")
