"""Servers that stop, die, cut connections or fill their disk while memories save; programs that die."""

import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from at_once import at_once, wait_until
from other_processes import begun
from postgres_faults.agreement import check_whole, order_of
from psycopg import sql
from refusing import raises, refused

from jiyi.errors import DatabaseUnreachable, DiskFull
from jiyi.storage.postgres import PostgresDatabase

THREADS, COUNT = 3, 40  # of each of two memories
EXPECTED = 2 * THREADS * COUNT
AWAY, PAUSE = 0.3, 0.15  # seconds: how long the server is, and between two cuts


def stopped(server, url, saved):
    server.stop()
    time.sleep(AWAY)
    server.start()


def killed(server, url, saved):
    server.kill9()
    time.sleep(AWAY)
    server.start()


def cut_off(server, url, saved):
    """Cut all connections to the database again and again, until a third more is saved."""
    words, most = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", len(saved)
    with psycopg.connect(server.superuser_url, autocommit=True) as keeper:
        while len(saved) < min(EXPECTED, most + EXPECTED // 3):
            keeper.execute(words, [url.rpartition("/")[2]])
            time.sleep(PAUSE)


@pytest.mark.parametrize("happens", [stopped, killed, cut_off])
def test_who_saves_waits_for_the_server_and_loses_nothing(
    open_memory, postgres_server, postgres_url, happens
):
    """Every second message goes into a session of all; every seventh teaches a fact, which takes longest."""
    saved = []

    def save(memory, name):
        for i in range(COUNT):
            id_ = f"{name}-{i}"
            user, session = ("ana", "shared") if i % 2 else (f"user-{name}", "own")
            text = f"{'又说了' if i % 7 else f'第 {i} 条'} w{id_.replace('-', 'q')}"
            memory.save_message(session, role="user", content=text, id=id_, user_id=user)
            saved.append(id_)

    def happen():
        wait_until(lambda: len(saved) >= EXPECTED // 6)
        happens(postgres_server, postgres_url, saved)

    work: list[Callable[[], object]] = [happen]
    for name in ("one", "two"):
        memory = open_memory(background=True, lock_timeout=30, reconnect_seconds=60, pool_max=2)
        work += [lambda m=memory, who=f"{name}-{n}": save(m, who) for n in range(THREADS)]
    at_once(lambda do: do(), work)
    assert check_whole(postgres_url, saved, every=7) == len(saved) == EXPECTED
    for said in order_of(postgres_url, "ana", "shared").values():
        assert said == sorted(said), "what one thread said stays in its order"


SAVER = """
import sys, jiyi
from jiyi.testing import HashEmbedder
with jiyi.open(sys.argv[1], user_id="ana", embedder=HashEmbedder(256)) as memory:
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(10_000):
        memory.save_message("shared", role="user", content=f"又说了 wdeadq{i}", id=f"dead-{i}")
        print(f"dead-{i}", flush=True)
"""


def test_of_a_killed_program_all_that_was_acknowledged_is_there(open_memory, postgres_url):
    memory, program = open_memory(), begun(SAVER, postgres_url)
    saved = [program.stdout.readline().strip() for _ in range(20)]
    for n in range(40):
        saved.append(memory.save_message("shared", role="user", content=f"wmineq{n}", id=f"mine-{n}").id)
        if n == 20:
            program.kill()
    saved += program.communicate(timeout=20)[0].split()
    assert len(saved) <= check_whole(postgres_url, saved, every=7) <= len(saved) + 1, "it had one at hand"


def test_while_the_server_is_away_every_verb_ends_and_the_worker_stays(
    open_memory, postgres_server, postgres_url
):
    memory = open_memory(background=True, reconnect_seconds=0.5, pool_seconds=1)
    memory.save_message("s", role="user", content="before wa", id="a")
    memory.flush()
    worker = memory._long_term.indexer._thread
    postgres_server.stop()
    refused(DatabaseUnreachable, "check that the server runs", PostgresDatabase, postgres_url)
    verbs = (
        lambda: memory.save_message("s", role="user", content="never wb", id="b"),
        lambda: memory.search("before"),
        lambda: memory.build_context("s", "before", 500),
        lambda: memory.start_task("s", "mend the gateway"),
        lambda: memory.remember("I prefer tea"),
        memory.stats,
        memory.flush,
    )
    for verb in verbs:
        began = time.monotonic()
        raises(DatabaseUnreachable, verb)
        assert time.monotonic() - began < 9
    postgres_server.start()
    began = time.monotonic()
    assert len(memory.search("before")) == 1
    assert time.monotonic() - began < 3, "nobody waits longer than the server was away"
    memory.save_message("s", role="user", content="after wc", id="c")
    wait_until(lambda: not memory.stats()["vectors_pending"])
    assert worker.is_alive()
    assert check_whole(postgres_url, "ac") == 2


def test_closing_ends_while_the_server_is_away(open_memory, postgres_server, postgres_url):
    memory = open_memory(background=True, reconnect_seconds=60)
    memory.save_message("s", role="user", content="before wa", id="a")
    postgres_server.stop()
    began = time.monotonic()
    memory.close()
    assert time.monotonic() - began < 11, "the worker is waited for 5 s, the pool's threads 5 s"
    postgres_server.start()
    assert check_whole(postgres_url, "a") == 1


MEGABYTE = 1024 * 1024


@pytest.fixture
def small_disk(postgres_server, postgres_url, passable_folder):
    """Move the database to a disk of 24 MB; return a file there that can be removed to make room."""
    folder = passable_folder
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=755", "tmpfs", folder]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small tmpfs")
    place, ballast = folder / "tables", folder / "ballast"
    place.mkdir(mode=0o700)
    name = postgres_url.rpartition("/")[2]
    with psycopg.connect(postgres_server.superuser_url, autocommit=True) as server:
        (data,) = server.execute("SHOW data_directory").fetchone()
        owner = Path(data).stat()
        shutil.chown(place, owner.st_uid, owner.st_gid)
        order(server, "CREATE TABLESPACE small_disk LOCATION {}", sql.Literal(str(place)))
        order(server, "ALTER DATABASE {} SET TABLESPACE small_disk", sql.Identifier(name))
        ballast.write_bytes(b"x" * 8 * MEGABYTE)
        yield ballast
        order(server, "DROP DATABASE {} WITH (FORCE)", sql.Identifier(name))
        order(server, "DROP TABLESPACE small_disk")
    subprocess.run(["umount", "-l", folder], check=True)


def order(server, words, *names):
    server.execute(sql.SQL(words).format(*names))


def test_a_full_disk_is_named_loses_nothing_and_saving_goes_on_with_space(
    small_disk, open_memory, postgres_url
):
    memory = open_memory(background=True)
    worker = memory._long_term.indexer._thread
    saved, noise = [], random.Random(7)

    def save():
        id_ = f"m-{len(saved)}"
        text = f"long text w{id_.replace('-', 'q')} {noise.randbytes(60_000).hex()}"
        memory.save_message("s", role="user", content=text, id=id_)
        saved.append(id_)

    def save_on():
        for _ in range(1_000):
            save()

    refused(DiskFull, "nothing was written, free some space and try again", save_on)
    assert len(saved) > 10
    raises(DiskFull, save)
    assert memory.search("w" + saved[0].replace("-", "q"), limit=1)[0].id == saved[0], "reading goes on"
    assert memory.stats()["message"] == len(saved)
    small_disk.unlink()
    save()
    wait_until(lambda: not memory.stats()["vectors_pending"], 40)  # the worker goes on by itself
    assert worker.is_alive()
    assert check_whole(postgres_url, saved, every=10) == len(saved)
