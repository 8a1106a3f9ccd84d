"""A server whose disk is full: a small tmpfs holds the tables of one database."""

import random
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest
from at_once import wait_until
from postgres_faults.agreement import check_whole
from psycopg import sql

from jiyi.errors import DiskFull

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

    with pytest.raises(DiskFull, match="nothing was written, free some space and try again"):
        save_on()
    assert len(saved) > 10
    with pytest.raises(DiskFull):
        save()
    assert memory.search("w" + saved[0].replace("-", "q"), limit=1)[0].id == saved[0], "reading goes on"
    assert memory.stats()["message"] == len(saved)
    small_disk.unlink()
    save()
    wait_until(lambda: not memory.stats()["vectors_pending"], 40)  # the worker goes on by itself
    assert worker.is_alive()
    assert check_whole(postgres_url, saved, every=10) == len(saved)
