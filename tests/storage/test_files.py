"""Files beside and from a memory, and where they are: who may read them, what is never replaced or read."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from at_once import wait_until
from refusing import raises, refused
from tables import read_tables

from jiyi.errors import ImportFailed, InputError, SettingsError
from jiyi.storage.place import Place, locate
from jiyi.telling import mask

posix = pytest.mark.skipif(os.name == "nt", reason="modes, pipes and devices are those of POSIX")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@posix
def test_only_the_owner_may_read_what_is_made(memory, path, tmp_path):
    memory.save_message("s", role="user", content="a secret")
    memory.export(tmp_path / "all.jsonl")
    made = {file.name: oct(mode(file)) for file in tmp_path.iterdir()}
    assert made == dict.fromkeys(("agent.db", "agent.db-wal", "agent.db-shm", "all.jsonl"), "0o600")


@posix
def test_files_that_are_there_keep_their_mode(path, tmp_path, open_memory):
    for file in (path, tmp_path / "all.jsonl"):
        file.touch()
        file.chmod(0o640)
    memory = open_memory()
    memory.save_message("s", role="user", content="for the group")
    memory.export(tmp_path / "all.jsonl")
    assert {oct(mode(file)) for file in tmp_path.iterdir()} == {"0o640"}
    assert (tmp_path / "all.jsonl").stat().st_size > 100


def device(path, minor):
    """Make a device as /dev/null (3) and /dev/zero (5) are."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
    except OSError:
        pytest.skip("needs the right to make a device")


def pipe(path, minor):
    os.mkfifo(path)


@posix
@pytest.mark.parametrize("make", [device, pipe])
@pytest.mark.parametrize("linked", [False, True])
def test_what_is_no_file_is_neither_replaced_nor_read(memory, tmp_path, make, linked):
    memory.save_message("s", role="user", content="hello")
    place = target = tmp_path / "place.jsonl"
    make(target, 5)
    if linked:
        place = tmp_path / "link.jsonl"
        place.symlink_to(target)
    before = target.stat()
    for form in ("jsonl", "markdown"):
        refused(InputError, "no regular file", memory.export, place, format=form)
    refused(ImportFailed, "no regular file", memory.import_, place)
    after = target.stat()
    assert (after.st_mode, after.st_ino, after.st_rdev) == (before.st_mode, before.st_ino, before.st_rdev)
    assert not list(tmp_path.glob(".jiyi-*"))


def test_a_link_leads_to_the_file_that_is_written(memory, tmp_path):
    memory.save_message("s", role="user", content="hello")
    link, target = tmp_path / "link.jsonl", tmp_path / "target.jsonl"
    link.symlink_to(target)
    for _ in range(2):  # one that is not there yet, and one that is
        memory.export(link)
        assert link.is_symlink()
        assert b"hello" in target.read_bytes()
    link.unlink()
    link.symlink_to(link)
    raises(InputError, memory.export, link)
    assert link.is_symlink()


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
def test_a_memory_is_never_written_over(memory, path, end):
    memory.save_message("s", role="user", content="hello")
    refused(InputError, "is a database", memory.export, path.with_name(path.name + end))
    assert [message.text for message in memory.recent_messages("s")] == ["hello"]


@pytest.mark.parametrize(("name", "match"), [("a.jsonl", "64 MiB"), ("a.json", "256 MiB")])
def test_lines_and_files_without_end_are_refused_in_bounded_memory(memory, tmp_path, name, match):
    with (tmp_path / name).open("wb") as file:
        file.truncate(300 * 1024 * 1024)
    refused(ImportFailed, match, memory.import_, tmp_path / name)


HALF = """
import sys
from pathlib import Path
from jiyi.storage.transfer.files import atomic_file
with atomic_file(Path(sys.argv[1])) as file:
    file.write(b"half of it")
    file.flush()
    print("begun", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def half(tmp_path):
    """Processes that are in the middle of writing a file."""
    begun = []

    def begin(name="a.jsonl"):
        command = [sys.executable, "-c", HALF, str(tmp_path / name)]
        begun.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert begun[-1].stdout.readline() == "begun\n"
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.communicate(timeout=60)


def parts(folder):
    return list(folder.glob(".jiyi-*.part"))


@pytest.mark.slow
def test_half_written_files_of_the_killed_go_with_the_next_and_no_others(memory, tmp_path, half):
    dead, living = half("dead.jsonl"), half("living.jsonl")
    dead.kill()
    dead.wait(60)
    (tmp_path / ".other.part").write_text("somebody else's")
    assert len(parts(tmp_path)) == 2
    assert not (tmp_path / "dead.jsonl").exists()
    memory.export(tmp_path / "next.jsonl")
    assert len(parts(tmp_path)) == 1
    living.communicate("go on\n", timeout=60)
    assert (tmp_path / "living.jsonl").read_text() == "half of it"
    assert not parts(tmp_path)
    assert (tmp_path / ".other.part").exists()


@pytest.mark.slow
def test_purging_takes_half_written_files_too(memory, tmp_path, half):
    memory.save_message("s", role="user", content="to be purged")
    half().kill()
    wait_until(lambda: memory.forget(everything=True, purge=True) and not parts(tmp_path))


SECRET = "s3cret"


@pytest.mark.parametrize(("url", "shown"), read_tables(__file__)["servers, and how they are shown"])
def test_a_server_is_named_without_its_password(url, shown):
    place = locate(url)
    assert (place.path, place.url) == (None, url)
    assert str(place) == mask(url) == shown
    assert SECRET not in repr(place)


@pytest.mark.parametrize(("url", "said"), read_tables(__file__)["no addresses, and what is said of them"])
def test_what_is_no_address_is_refused_without_showing_its_password(url, said):
    with pytest.raises(SettingsError, match=said) as caught:
        locate(url)
    assert SECRET not in str(caught.value)


def test_a_file_is_named_and_a_place_taken_as_it_is(tmp_path):
    for given in (tmp_path / "a:b@c.db", str(tmp_path / "a:b@c.db"), f"sqlite:///{tmp_path}/a:b@c.db"):
        assert locate(given) == Place(path=tmp_path / "a:b@c.db")
        assert str(locate(given)) == str(tmp_path / "a:b@c.db")
    place = Place(path=Path("x.db"))
    assert locate(place) is place
