"""Opening by URL: where it may come from, what it opens, and nothing left behind by a failure."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import psycopg
import pytest
from at_once import wait_until
from refusing import refused

import jiyi
from jiyi.databases import check_database, database_exists, list_users
from jiyi.errors import DatabaseUnreachable, EmbedderMismatch, MissingExtra, SettingsError, StorageError
from jiyi.settings import load_settings
from jiyi.testing import HashEmbedder


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


def test_what_one_memory_saved_another_one_finds(postgres_url, open_memory):
    here, there = open_memory(postgres_url), open_memory(postgres_url)
    here.save_message("s", role="user", content="the certificate expires in May")
    assert there.search("certificate", kinds="message")[0].text == "the certificate expires in May"


async def in_other_threads(url: str) -> int:
    async with jiyi.open_async(url, user_id="ana", embedder=HashEmbedder(), background=False) as memory:
        await memory.save_message("s", role="user", content="x")
        return (await memory.stats())["message"]


def test_the_awaited_verbs_take_a_url_too(postgres_url):
    import asyncio

    assert asyncio.run(in_other_threads(postgres_url)) == 1


def test_without_a_url_the_setting_names_the_place(postgres_url, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JIYI_DATABASE_URL", raising=False)
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


def test_the_settings_reach_the_pool(postgres_url, open_memory):
    memory = open_memory(postgres_url, pool_max=2, pool_min=2, pool_seconds=0.2)
    memory.save_message("s", role="user", content="x")
    busy, leave = threading.Barrier(3), threading.Event()

    def hold(user: str) -> None:
        with memory._store.transaction():
            memory.stats(user_id=user)
            busy.wait(timeout=30)
            leave.wait(timeout=30)

    with ThreadPoolExecutor(2) as pool:
        holding = pool.map(hold, ("ben", "eve"))
        busy.wait(timeout=30)
        try:
            assert connections(postgres_url) == 2
            refused(StorageError, "pool_max", memory.stats)
        finally:
            leave.set()
        assert list(holding) == [None, None]
    assert memory.stats()["message"] == 1


def test_tables_are_left_alone_where_that_is_set(empty_postgres_url, open_memory):
    refused(StorageError, "jiyi migrate", open_memory, empty_postgres_url, migrate_on_open=False)
    assert not database_exists(empty_postgres_url)
    open_memory(empty_postgres_url).close()
    with open_memory(empty_postgres_url, migrate_on_open=False) as memory:
        memory.save_message("s", role="user", content="x")


def test_a_closed_memory_says_so(postgres_url, open_memory):
    memory = open_memory(postgres_url, background=True)
    memory.close()
    memory.close()
    for use in (
        lambda: memory.save_message("s", role="user", content="x"),
        lambda: memory.search("x"),
        memory.stats,
    ):
        refused(StorageError, "closed", use)
