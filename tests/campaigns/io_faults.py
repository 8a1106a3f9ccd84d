"""The disk fails at the n-th call: is the error one of jiyi's, is what was acknowledged there, does it go on?

    python tests/campaigns/io_faults.py --minutes 10 [--seed 1] [--skip N]

A script of 31 operations with the writing verbs runs on a file whose reads, writes, syncs, truncations and
locks are counted, in parts of five, each with an opening and a closing. Then each part runs again and again,
each time on a copy of the file that the parts before it left, and the n-th call fails: once
(SQLITE_IOERR_…, or SQLITE_FULL, at times after half of the bytes), or from there on until the disk "has
room again". Every n is tried in both ways, in a random order, as far as the time goes; ``--skip`` leaves out
the first of them, which a run with the same seed has tried.

Oracle: whatever a verb raises is a `JiyiError`, and none that tells of a moved or damaged file. After the
fault the memory goes on as it is, or when it is opened again. What was acknowledged before and after is
there, what an acknowledged verb took away is not, and of the verb that failed all or nothing is; the file
passes `check`.
"""

import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
from campaign_run import asked, folder_in_memory, told

import jiyi
from jiyi.errors import JiyiError
from jiyi.testing import HashEmbedder

FAILS = {
    "xRead": [apsw.SQLITE_IOERR_READ],
    "xWrite": [apsw.SQLITE_FULL, apsw.SQLITE_IOERR_WRITE],
    "xSync": [apsw.SQLITE_IOERR_FSYNC],
    "xTruncate": [apsw.SQLITE_IOERR_TRUNCATE],
    "xLock": [apsw.SQLITE_IOERR_LOCK],
}


@dataclass
class Disk:
    """Counts calls, and fails some."""

    at: int = -1  # the call that fails; -1: none
    lasting: bool = False  # writes fail from there on
    calls: int = 0
    hit: str = ""  # which call failed first

    def begin(self, at: int = -1, *, lasting: bool = False) -> None:
        self.at, self.lasting, self.calls, self.hit = at, lasting, 0, ""

    def call(self, name: str, half: Callable[[], object] | None = None) -> None:
        self.calls += 1
        late = self.lasting and name == "xWrite" and 0 <= self.at < self.calls
        if self.calls != self.at and not late:
            return
        self.hit = self.hit or name
        kinds = FAILS[name][:1] if self.lasting else FAILS[name]
        if half is not None and self.calls % 2:
            half()
        raise apsw.exception_for(kinds[self.calls % len(kinds)])


WRONG = {"DatabaseMoved", "DatabaseDamaged", "ForeignDatabase", "NewerDatabase"}  # of a disk that fails
DISK = Disk()
PART = 5  # operations of the script that run in one try: what came before them need not be done again


class File(apsw.VFSFile):
    def xRead(self, amount: int, offset: int) -> bytes:
        DISK.call("xRead")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        DISK.call("xWrite", lambda: super(File, self).xWrite(data[: len(data) // 2], offset))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        DISK.call("xSync")
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:
        DISK.call("xTruncate")
        super().xTruncate(size)

    def xLock(self, level: int) -> None:
        DISK.call("xLock")
        super().xLock(level)


class Disks(apsw.VFS):
    def __init__(self) -> None:
        self.name, self.base = "faulty", apsw.vfs_names()[0]
        super().__init__(self.name, self.base, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return File(self.base, name, flags)


@contextmanager
def faulty_disk() -> Iterator[None]:
    disks = Disks()
    try:
        yield
    finally:
        DISK.begin()
        disks.unregister()


@dataclass
class Expected:
    """What was acknowledged: texts that are there, texts that are not, and those it is not known of."""

    there: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    unsure: list[set[str]] = field(default_factory=list)  # all of each, or none

    def copy(self) -> "Expected":
        return Expected(set(self.there), set(self.gone), list(self.unsure))


Step = Callable[[jiyi.MemoryManager, Expected], None]


def says(number: int, *, session: str = "s") -> Step:
    def step(memory: jiyi.MemoryManager, expected: Expected) -> None:
        texts = [f"message {number} {place} " + "words " * 60 for place in range(1 + number % 4)]
        batch = [{"role": "user", "content": text} for text in texts]
        _do(expected, set(texts), lambda: memory.save_messages(session, batch))

    return step


def forgets(number: int, *, purge: bool = False) -> Step:
    """Forget a session of its own, or part of it where it could not be saved."""

    def step(memory: jiyi.MemoryManager, expected: Expected) -> None:
        session, texts = f"session-{number}", {f"secret {number} {place}" for place in range(2)}
        batch = [{"role": "user", "content": text} for text in sorted(texts)]
        _do(expected, texts, lambda: memory.save_messages(session, batch))
        _undo(expected, texts, lambda: memory.forget(session_id=session, purge=purge))

    return step


def works(number: int) -> Step:
    def step(memory: jiyi.MemoryManager, expected: Expected) -> None:
        task = memory.start_task(f"work-{number}", f"task {number}", target="nginx")
        memory.add_step(task.id, "look at the disk", tool_name="shell", args={"command": "df"})
        memory.pin([memory.complete_task(task.id, summary="the disk was full " * 20).id])

    return step


def keeps(memory: jiyi.MemoryManager, expected: Expected) -> None:
    memory.remember("I live in Porto and my port is 8080.")
    memory.maintain()


def embeds(memory: jiyi.MemoryManager, expected: Expected) -> None:
    memory.flush()
    memory.search("message words")
    memory.build_context("s", "what was said?", 2_000)


SCRIPT: list[Step] = [
    *(says(number) for number in range(6)),
    *(forgets(1), works(1), embeds, keeps, forgets(2, purge=True)),
    *(says(number) for number in range(6, 14)),
    *(works(2), embeds, forgets(3), keeps),
    *(says(number) for number in range(14, 20)),
    *(forgets(4, purge=True), embeds),
]


def _do(expected: Expected, texts: set[str], verb: Callable[[], object]) -> None:
    try:
        verb()
    except JiyiError:
        expected.unsure.append(texts)
        raise
    expected.there |= texts


def _undo(expected: Expected, texts: set[str], verb: Callable[[], object]) -> None:
    try:
        verb()
    except JiyiError:
        expected.there -= texts
        expected.unsure.append(texts)
        raise
    expected.there -= texts
    expected.gone |= texts


def opened(path: Path) -> jiyi.MemoryManager:
    return jiyi.open(path, user_id="ana", embedder=HashEmbedder(), background=False)


def run(path: Path, steps: list[Step], expected: Expected) -> list[str]:
    """Run the script, open again where that is needed; return the classes of errors."""
    errors: list[str] = []
    memory: jiyi.MemoryManager | None = None
    for step in [*steps, None]:
        try:
            memory = memory or opened(path)
            if step is not None:
                step(memory, expected)
        except JiyiError as error:
            errors.append(type(error).__name__)
            if DISK.lasting and len(errors) >= 3:
                DISK.at = -1  # there is room again
            if len(errors) > 1 and memory is not None:  # it did not go on by itself
                with suppress(JiyiError):
                    memory.close()
                memory = None
    with suppress(JiyiError):
        if memory is not None:
            memory.close()
    return errors


def faults_of(path: Path, expected: Expected) -> Iterator[str]:
    """Compare a file with what was acknowledged."""
    DISK.at = -1
    with opened(path) as memory:
        try:
            memory.parts.store._db.check()
        except JiyiError as error:
            yield f"unsound: {error}"
        there = {
            message.text
            for session in ("s", *(f"session-{number}" for number in range(1, 5)))
            for message in memory.session_messages(session)
        }
        memory.save_message("s", role="user", content="it goes on")
    if lost := expected.there - there:
        yield f"{len(lost)} acknowledged messages lost"
    if back := expected.gone & there:
        yield f"{len(back)} forgotten messages back"
    for texts in expected.unsure:
        if texts & there and not texts <= there:
            yield "half of a verb that failed is there"


def campaign(seconds: float, seed: int, most: int | None = None, skip: int = 0) -> dict[str, Any]:
    """Run as much as the time allows, up to try number ``most``; return figures and faults."""
    with folder_in_memory() as folder:
        return _campaign(seconds, seed, slice(skip, most), Path(folder))


def _campaign(seconds: float, seed: int, which: slice, folder: Path) -> dict[str, Any]:
    drawn, until = random.Random(seed), time.monotonic() + seconds
    hits, errors, faults = Counter[str](), Counter[str](), list[str]()
    with faulty_disk():
        parts = list(_parts(folder, faults))
        calls = ((part, at) for part in parts for at in range(1, part.calls + 1))
        tries = [(part, at, lasting) for part, at in calls for lasting in (False, True)]
        drawn.shuffle(tries)
        done = 0
        for part, at, lasting in tries[which]:
            if time.monotonic() > until:
                break
            path, expected = _copied(part.base), part.expected.copy()
            where = f"operation {part.first} on, call {at}{' and later ones' if lasting else ''}"
            DISK.begin(at, lasting=lasting)
            try:
                raised = run(path, part.steps, expected)
                hits[DISK.hit] += 1
                errors.update(raised)
                faults += [f"{where} ({DISK.hit}): {error}" for error in raised if error in WRONG]
                faults += [f"{where} ({DISK.hit}): {fault}" for fault in faults_of(path, expected)]
            except Exception as error:
                faults.append(f"{where}: untyped {type(error).__name__}: {error}")
            done += 1
            if done % 500 == 0:
                print(f"{done} of {len(tries)}, {len(faults)} faults", file=sys.stderr, flush=True)
    return {
        "operations": len(SCRIPT),
        "calls of the script": sum(part.calls for part in parts),
        "tries": f"{done} of {len(tries)}",
        "failed first": dict(hits),
        "errors": dict(errors),
        "faults": faults,
    }


@dataclass
class Part:
    """Some operations of the script: what they begin with, and how many calls they make."""

    first: int
    steps: list[Step]
    base: Path
    expected: Expected
    calls: int


def _parts(folder: Path, faults: list[str]) -> Iterator[Part]:
    """Run the script without a fault, part by part."""
    base, expected = folder / "base0.db", Expected()
    with opened(base) as memory:
        memory.save_messages("old", [{"role": "user", "content": f"old {n}" + " x" * 500} for n in range(50)])
        memory.flush()
    for first in range(0, len(SCRIPT), PART):
        steps, before, expected = SCRIPT[first : first + PART], expected, expected.copy()
        after = Path(shutil.copy(base, folder / f"base{first + PART}.db"))
        DISK.begin()
        faults += [f"without a fault: {error}" for error in run(after, steps, expected)]
        yield Part(first, steps, base, before, DISK.calls)
        faults += [f"without a fault: {fault}" for fault in faults_of(_copied(after), expected)]
        base = after


def _copied(base: Path) -> Path:
    for old in base.parent.glob("try.db*"):
        old.unlink()
    return Path(shutil.copy(base, base.with_name("try.db")))


def main() -> int:
    options = asked(__doc__, skip=0)
    return told(campaign(60 * options.minutes, options.seed, skip=options.skip))


if __name__ == "__main__":
    sys.exit(main())
