"""Disks that are full, read-only or damaged, and files that are not ours."""

import os
import shutil
import sqlite3
import subprocess
import sys

import pytest
from refusing import raises, refused

from jiyi.errors import DatabaseDamaged, DiskFull, ForeignDatabase, JiyiError, NewerDatabase, StorageError
from jiyi.settings import load_settings
from jiyi.storage import SqliteDatabase
from jiyi.storage.transfer.repair import repair_file


def whole(memory):
    """Say that the file is sound and its parts agree."""
    with memory._store._db.read() as db:
        assert db.raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        (documents,) = db.raw.execute("SELECT count(*) FROM documents").fetchone()
        assert db.raw.execute("SELECT count(*) FROM terms").fetchone() == (documents,)
        assert db.raw.execute("SELECT count(*) FROM messages").fetchone() == (documents,)
    return documents


def fill_up(memory, most=20_000):
    """Save until the disk is full; return what was acknowledged, and the error."""
    saved = []
    for i in range(most):
        try:
            saved.append(memory.save_message("s", role="user", content=f"number{i} " + "filler 填充 " * 200))
        except JiyiError as error:
            return saved, error
    raise AssertionError("the disk never got full")


def check_nothing_lost(memory, saved, error):
    assert isinstance(error, DiskFull), repr(error)
    assert "nothing was written" in str(error)
    assert saved
    assert memory.stats()["message"] == len(saved)
    last = len(saved) - 1
    assert [h.id for h in memory.search(f"number{last}", limit=1)] == [saved[last].id]
    assert memory.recent_messages("s")[-1] == saved[-1]


def test_a_file_that_may_not_grow_is_disk_full_and_loses_nothing(open_memory):
    memory = open_memory()
    with memory._store._db.write() as db:
        (pages,) = db.raw.execute("PRAGMA page_count").fetchone()
    writer = memory._store._db._writer
    writer.raw.execute(f"PRAGMA max_page_count={pages + 20}")
    saved, error = fill_up(memory)
    check_nothing_lost(memory, saved, error)
    writer.raw.execute("PRAGMA max_page_count=4294967294")
    memory.save_message("s", role="user", content="space again " + "x" * 100_000)
    assert whole(memory) == len(saved) + 1


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("needs the right to mount a small tmpfs")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_named_loses_nothing_and_saving_goes_on_with_space(small_disk, open_memory):
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 700_000)
    memory = open_memory(small_disk / "agent.db")
    saved, error = fill_up(memory)
    check_nothing_lost(memory, saved, error)
    raises(DiskFull, memory.save_message, "s", role="user", content="still full " + "x" * 50_000)
    ballast.unlink()
    memory.save_message("s", role="user", content="space again")
    assert whole(memory) == len(saved) + 1
    memory.close()
    with open_memory(small_disk / "agent.db") as again:
        assert whole(again) == len(saved) + 1


def test_a_new_file_on_a_full_disk_is_named(small_disk, open_memory):
    refused(OSError, "No space", (small_disk / "ballast").write_bytes, b"x" * 3_000_000)
    raises(DiskFull, open_memory, small_disk / "agent.db")
    (small_disk / "ballast").unlink()
    assert open_memory(small_disk / "agent.db").stats()["message"] == 0


@pytest.mark.parametrize("room", [1, 300_000, 1_200_000])
def test_a_repair_that_finds_no_room_says_so_and_leaves_nothing(small_disk, open_memory, path, room):
    """Neither a half-made file, which would look like a repaired one, nor what it was made in."""
    with open_memory() as memory:
        batch = [{"role": "user", "content": f"message {i} " + "words " * 50} for i in range(800)]
        memory.save_messages("s", batch)
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (2 * 1024 * 1024 - room))
    refused(DiskFull, r"new\.db", repair_file, path, small_disk / "new.db", load_settings())
    assert list(small_disk.iterdir()) == [ballast]
    whole_one = path.with_name("new.db")
    assert repair_file(path, whole_one, load_settings()).saved["message"] == 800
    with open_memory(whole_one) as again:
        assert whole(again) == 800


NOBODY = """
import os, sys
import jiyi
from jiyi.errors import JiyiError
from jiyi.testing import HashEmbedder
open_memory = jiyi.open  # loaded while the folders of the environment can be read
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
embedder = HashEmbedder()
try:
    with open_memory(sys.argv[1], user_id="ana", embedder=embedder, background=False) as memory:
        memory.save_message("s", role="user", content="hello")
    print("saved")
except JiyiError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def as_nobody(tmp_path):
    """Open and save in a process without special rights; return what it printed."""
    for folder in (tmp_path, *tmp_path.parents):  # pytest's folders are closed to others
        if folder.stat().st_uid == os.geteuid() and str(folder).count("/") > 1:
            folder.chmod(folder.stat().st_mode | 0o055)

    def run(path):
        done = subprocess.run(
            [sys.executable, "-c", NOBODY, str(path)], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    probe = tmp_path / "probe"
    probe.mkdir()
    probe.chmod(0o777)
    if run(probe / "agent.db") != "saved":
        pytest.skip("needs a folder that a process without rights can reach")
    return run


def test_a_folder_that_cannot_be_written(tmp_path, as_nobody):
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o555)
    said = as_nobody(folder / "agent.db")
    folder.chmod(0o755)
    assert said.startswith("DatabaseReadOnly")
    assert "permissions" in said
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("file_mode", "folder_mode"), [(0o444, 0o777), (0o444, 0o555), (0o666, 0o555), (0o000, 0o777)]
)
def test_a_file_that_cannot_be_written(tmp_path, open_memory, as_nobody, file_mode, folder_mode):
    folder = tmp_path / "closed"
    folder.mkdir()
    path = folder / "agent.db"
    with open_memory(path) as memory:
        memory.save_message("s", role="user", content="kept")
    before = path.read_bytes()
    path.chmod(file_mode)
    folder.chmod(folder_mode)
    said = as_nobody(path)
    folder.chmod(0o755)
    path.chmod(0o644)
    assert said.startswith("DatabaseReadOnly"), said
    assert path.read_bytes() == before
    with open_memory(path) as memory:
        assert memory.stats()["message"] == 1


@pytest.fixture
def written(path, open_memory):
    """The bytes of a database with some hundred messages."""
    with open_memory(path) as memory:
        batch = [{"role": "user", "content": f"message {i} " + "words " * 50} for i in range(400)]
        memory.save_messages("s", batch)
        memory.flush()
    return path.read_bytes()


def use(memory):
    memory.search("message")
    memory.save_message("s", role="user", content="more")
    memory.flush()
    whole(memory)


@pytest.mark.parametrize("pages", ["the second", "the middle", "all but the first"])
def test_damaged_pages_are_named_when_they_are_met(path, open_memory, written, pages):
    size = 8192
    count = len(written) // size
    middle = (count // 4, count * 3 // 4)
    first, last = {"the second": (1, 2), "the middle": middle, "all but the first": (1, count)}[pages]
    path.write_bytes(written[: first * size] + b"\xa5" * (last - first) * size + written[last * size :])
    refused(DatabaseDamaged, r"damaged.*backup", lambda: use(open_memory()))


@pytest.mark.parametrize("keep", [0.9, 0.5, 0.1])
def test_a_truncated_file_is_refused_and_left_alone(path, open_memory, written, keep):
    path.write_bytes(written[: int(len(written) * keep)])
    before = path.read_bytes()
    refused(DatabaseDamaged, "backup", lambda: use(open_memory()))
    assert path.read_bytes() == before


def sqlite_of_another_program(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE messages (doc INTEGER)")
    connection.execute("INSERT INTO messages VALUES (1)")
    connection.commit()
    connection.close()


FOREIGN = {
    "a text file": lambda path: path.write_text("to do: buy milk\n"),
    "half a header": lambda path: path.write_bytes(b"SQLite format 3\0\x10\x00"),
    "a long text file": lambda path: path.write_text("line\n" * 10_000),
    "one byte": lambda path: path.write_bytes(b"\0"),
    "another program's database": sqlite_of_another_program,
}


@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN.keys())
def test_files_of_others_are_refused_and_stay_as_they_are(path, open_memory, make):
    make(path)
    before = path.read_bytes()
    refused(ForeignDatabase, "name another file", open_memory)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_database_of_another_program_with_a_log_stays_as_it_is(path, open_memory):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE t (a)")
    connection.commit()
    files = {p.name: p.read_bytes() for p in path.parent.iterdir()}
    assert len(files) > 1
    raises(ForeignDatabase, open_memory)
    assert {p.name: p.read_bytes() for p in path.parent.iterdir()} == files
    connection.close()


@pytest.mark.parametrize("crashed", [False, True])
def test_a_newer_file_is_refused_and_left_alone(tmp_path, open_memory, crashed):
    """Also where its last changes still lie in the log: closing must not fold it in."""
    original = tmp_path / "original.db"
    database = SqliteDatabase(original)
    with database.write() as db:
        db.raw.execute("PRAGMA user_version=999")
    if not crashed:
        database.close()
    path = tmp_path / "agent.db"
    for suffix in ("", "-wal"):
        source = original.with_name(original.name + suffix)
        if source.exists():
            shutil.copy(source, path.with_name(path.name + suffix))
    database.close()
    before = path.read_bytes()
    refused(NewerDatabase, r"999.*pip install --upgrade", open_memory, path)
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_database(path, open_memory):
    path.touch()
    memory = open_memory()
    memory.save_message("s", role="user", content="x")
    assert whole(memory) == 1


def test_a_place_that_is_no_place_for_a_file(tmp_path, open_memory):
    (tmp_path / "file").write_text("x")
    for place, words in {
        tmp_path: "is a folder",
        tmp_path / "no" / "such" / "agent.db": "does not exist",
        tmp_path / "file" / "agent.db": "cannot be opened",
        tmp_path / ("n" * 300): "cannot be opened",
        tmp_path / "nul\0.db": "cannot be opened",
    }.items():
        refused(StorageError, words, open_memory, place)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_transaction_the_database_undid_cannot_be_gone_on_with(path):
    """A full disk undoes everything; what follows in the block must not be saved alone."""
    database = SqliteDatabase(path)
    with database.write() as db:
        db.raw.execute("CREATE TABLE t (a)")
    database._writer.raw.execute("PRAGMA max_page_count=1")

    def go_on():
        with database.write() as db:
            db.raw.execute("INSERT INTO t VALUES (1)")
            with pytest.raises(DiskFull), database.write() as inner:
                inner.raw.execute("INSERT INTO t VALUES (zeroblob(10000000))")
            with database.write() as inner:
                inner.raw.execute("INSERT INTO t VALUES (2)")

    refused(StorageError, "undid", go_on)
    with database.read() as db:
        assert db.raw.execute("SELECT count(*) FROM t").fetchone() == (0,)
    database.close()
