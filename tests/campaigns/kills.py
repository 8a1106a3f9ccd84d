"""Killed at random moments in the middle of every verb that writes: nothing acknowledged is lost.

    python tests/campaigns/kills.py --minutes N [--seed S] [--db sqlite|postgres] [--kills N]

Each process reads everything that the ones before it left, then does one random verb after the other and
says before each what it may touch, and after it what it was promised. It is killed within .1 s, at times
.3 s, after it opened the memory, or while it opens it. On PostgreSQL every tenth time the server is killed
with all its processes and started again; the writer goes on, and is killed later. The processes are forked
from one that has loaded everything, which makes five kills a second.

The oracle: each record is as the last acknowledgement said. Of a verb that was not acknowledged
either all of what it touches has changed or nothing. And the parts agree: `Database.check` (rows,
words, vectors, sessions, keys), a task has ended exactly where it has an episode, knowledge has its
episodes, a fact one of its messages, summaries follow each other without a gap, and all that waits
can be embedded. Prints one table as JSON; exit code 1 where something was lost or half done.
"""

import gc
import json
import os
import random
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from campaign_run import asked, folder_in_memory, told
from kill_verbs import GONE, SKILL, TRASH, VERBS, Touched, seen

import jiyi
from jiyi.records import FORGETTABLE, SEARCHABLE, Query, Scope
from jiyi.settings import load_settings
from jiyi.storage.backend import Backend, open_backend
from jiyi.storage.place import locate
from jiyi.testing import HashEmbedder

LIVES = 15  # writers of one user, and of one file
USERS = 4  # of one PostgreSQL database
SERVER_EVERY, WHOLE_EVERY = 10, 5
SHORT, LONG = 0.1, 0.3  # seconds until a writer is killed, from when it has opened the memory
WHILE_OPENING = 0.15  # of them are killed before that, too
EVERY = 10_000  # more than one user gets
PATIENCE = 120  # seconds in which every process says something
EMBEDDER = HashEmbedder(64)
Line = tuple[str, Any]  # "opened", "began", "done" or "failed", and what
# What was learned from messages goes and comes with them: these verbs take them away or bring them back.
FOLLOWING = ("fact", "Fact", "Summary", "Knowledge", "Episode in")
TAKING = {"update", "pop", "replace", "forget", "restore"}


def write(url: str, user: str, seed: int, say: Callable[[str, Any], None]) -> None:
    """Do random verbs for ever."""
    drawn = random.Random(seed)
    with _open(url, user, background=drawn.random() < 0.5, skills=[_skills()]) as memory:
        say("opened", None)
        while True:
            (verb,) = drawn.choices(list(VERBS), list(VERBS.values()))
            steps = verb(memory, drawn)
            touched = next(steps, None)
            if touched is None:  # there is nothing it could be done with
                continue
            say("began", [verb.__name__, touched])
            say("done", next(steps))


def read(url: str, user: str, whole: bool) -> dict[str, Any]:
    """Return what there is of a user, and what does not agree."""
    faults: list[str] = []
    backend = open_backend(locate(url), load_settings())
    with closing(backend.store):
        there = _records(backend, Scope(user_id=user), faults)
        if whole:
            backend.database.check()
    if whole:
        with _open(url, user, background=False) as memory:
            memory.flush()
            if waiting := memory.stats()["vectors_pending"]:
                faults.append(f"{waiting} records cannot be embedded")
    return {"there": there, "faults": faults}


def _skills() -> Path:
    return Path(tempfile.gettempdir()) / "skills"


def _open(url: str, user: str, **options: Any) -> jiyi.MemoryManager:
    return jiyi.open(url, user_id=user, embedder=EMBEDDER, **options)


def _records(backend: Backend, scope: Scope, faults: list[str]) -> dict[str, str]:
    def all_of(kind: Any) -> list[Any]:
        return list(backend.store.find(Query(scope=scope, kinds=(kind,), limit=EVERY)))

    messages, episodes, lessons, facts, items = map(all_of, SEARCHABLE)
    tasks, summaries = all_of("task"), all_of("summary")
    steps = [step for task in tasks for step in task.steps]
    derived = (*episodes, *lessons, *facts, *summaries)
    there = {one.id: seen(one) for one in (*messages, *derived, *items, *tasks, *steps)}
    there |= {
        one.record.id: TRASH if one.kind == "message" else f"{type(one.record).__name__} {TRASH}"
        for one in backend.trash.discarded(Query(scope=scope, kinds=FORGETTABLE, limit=EVERY))
    }
    ended = {task.id for task in tasks if task.status != "in_progress"}
    if ended != {episode.task_id for episode in episodes}:
        faults.append("tasks that have ended and episodes are not the same")
    known = {episode.id for episode in episodes}
    faults += [f"knowledge {one.id} lacks episodes" for one in lessons if not known >= {*one.source_episodes}]
    faults += [
        f"fact {one.id} has none of its messages"
        for one in facts
        if one.sources and not any(id_ in there for id_ in one.sources)
    ]
    for session in all_of("session"):
        mine = [one for one in messages if one.scope.session_id == session.id]
        if session.messages != len(mine) or len({one.seq for one in mine}) != len(mine):
            faults.append(f"session {session.id} counts {session.messages} messages of {len(mine)}")
    for session_id in {one.scope.session_id for one in summaries}:
        versions = sorted(one.version for one in summaries if one.scope.session_id == session_id)
        if versions != list(range(versions[0], versions[0] + len(versions))):
            faults.append(f"summaries of {session_id} have a gap: {versions}")
    return there


class Oracle:
    """What was promised of one user, whoever wrote it."""

    def __init__(self, url: str, user: str) -> None:
        self.url, self.user = url, user
        self.promised: dict[str, str] = {}
        self.lines: list[Line] = []

    def kill(self, drawn: random.Random, server: Any, *, whole: bool) -> tuple[list[Line], list[str]]:
        """Let a process read, and write until it is killed; return what it said, and what it read amiss.

        Args:
            drawn: where chance comes from.
            server: is killed and started before; None: only the writer is killed.
            whole: check the whole database before it writes.
        """
        seed = drawn.getrandbits(32)

        def work(say: Callable[[str, Any], None]) -> None:
            say("read", read(self.url, self.user, whole))
            write(self.url, self.user, seed, say)

        with _child(work) as (pid, voice):
            faults = self.judge(voice.next(PATIENCE))
            if drawn.random() >= WHILE_OPENING:
                voice.wait(PATIENCE)
            time.sleep(drawn.uniform(0.0, SHORT if drawn.random() < 0.8 else LONG))
            if server is not None:
                server.kill9()
                server.start()
                time.sleep(drawn.uniform(0.1, LONG))
            os.kill(pid, signal.SIGKILL)
            self.lines = voice.rest()
            os.waitpid(pid, 0)
        if server is None:  # else a writer may be told that the server was away for long
            faults += [value for what, value in self.lines if what == "failed"]
        return self.lines, faults

    def last(self) -> list[str]:
        """Read what the last writer left, and the whole database; return the faults."""
        with _child(lambda say: say("read", read(self.url, self.user, True))) as (pid, voice):
            faults = self.judge(voice.next(PATIENCE))
            os.waitpid(pid, 0)
        return faults

    def judge(self, value: Line | None) -> list[str]:
        """Compare what was read with what the writers before were told; return the faults."""
        if value is None or value[0] != "read":
            return [f"it cannot be read: {value}"]
        return [*value[1]["faults"], *self.compare(self.lines, value[1]["there"])]

    def compare(self, lines: list[Line], there: dict[str, str]) -> Iterator[str]:
        """Give what is not as a writer was told, and take what is there for what is promised from now on."""
        doubtful: Touched = {}
        verb, verbs = "", set[str]()
        for what, value in lines:
            if what == "began":
                verb, doubtful = value
                verbs.add(verb)
            elif what == "done":
                self.promised |= value
                doubtful = {}
        moved = {id_: there.get(id_, GONE) != before for id_, before in doubtful.items()}
        if len(set(moved.values())) > 1:
            yield f"{verb} is half done: {Counter(moved.values())} of {len(moved)} changed"
        for id_, token in self.promised.items():
            now = there.get(id_, GONE)
            follows = token.startswith(FOLLOWING) and verbs & TAKING
            if now != token and id_ not in doubtful and not follows:
                yield f"{id_} was promised to be {token!r} and is {now!r}; done: {', '.join(verbs)}"
        self.promised = dict(there)


class Voice:
    """What a process says, line by line."""

    def __init__(self, back: int) -> None:
        self.back, self.heard = back, b""

    def wait(self, seconds: float) -> None:
        """Wait until it says something more."""
        if b"\n" not in self.heard:
            select.select([self.back], [], [], seconds)

    def next(self, seconds: float) -> Line | None:
        """Return its next line; None where it ended, or is silent for so long."""
        until = time.monotonic() + seconds
        while b"\n" not in self.heard:
            ready, _, _ = select.select([self.back], [], [], max(0.0, until - time.monotonic()))
            more = os.read(self.back, 1 << 20) if ready else b""
            if not more:
                return None
            self.heard += more
        line, _, self.heard = self.heard.partition(b"\n")
        what, value = json.loads(line)
        return what, value

    def rest(self) -> list[Line]:
        """Return all the other whole lines, once it has ended."""
        return list(iter(lambda: self.next(PATIENCE), None))


@contextmanager
def _child(work: Callable[[Callable[[str, Any], None]], None]) -> Iterator[tuple[int, Voice]]:
    """Fork a process for some work; give its id and what it says."""
    back, forth = os.pipe()
    pid = os.fork()
    if pid == 0:
        # Nothing that is open is shared with this program, such as the lock of the server's folder.
        os.closerange(3, forth)
        os.closerange(forth + 1, 1_024)

        def say(what: str, value: Any) -> None:
            line = (json.dumps([what, value]) + "\n").encode()
            while line:
                line = line[os.write(forth, line) :]

        try:
            work(say)
        except BaseException as error:
            say("failed", f"{type(error).__name__}: {error}")
        finally:
            os._exit(0)
    os.close(forth)
    try:
        yield pid, Voice(back)
    finally:
        os.close(back)


def campaign(
    url_of: Callable[[int], str], server: Any, *, seconds: float, kills: int, seed: int
) -> dict[str, Any]:
    """Kill until the time or the number is over; return the figures.

    Args:
        url_of: gives the database of the n-th user.
        server: is killed, too, every tenth time; None: there is none.
    """
    (_skills() / "disks").mkdir(parents=True)
    (_skills() / "disks" / "SKILL.md").write_text(SKILL, "utf-8")
    warm()
    gc.freeze()  # else each process copies what its first collection touches
    drawn, until = random.Random(seed), time.monotonic() + seconds
    counts, cut, faults = Counter[str](), Counter[str](), list[str]()
    number, oracle = 0, Oracle(url_of(0), "u0")
    while number < kills and time.monotonic() < until and len(faults) < 20:
        if number and number % LIVES == 0:
            faults += [f"{oracle.user}: {fault}" for fault in oracle.last()]
            oracle = Oracle(url_of(number // LIVES), f"u{number // LIVES}")
        number += 1
        too = server if number % SERVER_EVERY == 0 else None
        lines, found = oracle.kill(drawn, too, whole=number % WHOLE_EVERY == 0)
        faults += [f"{oracle.user}: {fault}" for fault in found]
        counts["kills"] += 1
        counts["of the server, too"] += too is not None
        counts["while opening"] += not lines
        counts["acknowledged"] += sum(what == "done" for what, _ in lines)
        counts["told of an error"] += sum(what == "failed" for what, _ in lines)
        if lines and lines[-1][0] == "began":
            cut[lines[-1][1][0]] += 1
        if number % 500 == 0:
            print(f"{number} kills, {len(faults)} faults", file=sys.stderr, flush=True)
    faults += [f"{oracle.user}: {fault}" for fault in oracle.last()]
    return {**counts, "in the middle of": dict(cut), "faults": faults}


def warm() -> None:
    """Do each verb some times, so that forked processes find loaded what verbs load at first."""
    with tempfile.TemporaryDirectory() as folder:
        url, drawn = f"{folder}/warm.db", random.Random(0)
        with _open(url, "u", background=False, skills=[_skills()]) as memory:
            for verb in [*VERBS] * 6:
                list(verb(memory, drawn))
            memory.search("backup")
        read(url, "u", True)


def _databases(server: Any) -> Callable[[int], str]:
    urls: list[str] = []

    def url_of(number: int) -> str:
        if number % USERS == 0:
            if urls:
                server.leave(urls[-1])
            urls.append(server.make())
        return urls[-1]

    return url_of


def main() -> int:
    """Run it and print the figures."""
    options = asked(__doc__, kills=1_000_000, db="sqlite")
    limits = {"seconds": 60 * options.minutes, "kills": options.kills, "seed": options.seed}
    began = time.monotonic()
    with folder_in_memory() as folder:  # a killed process loses nothing that the system has
        tempfile.tempdir = folder  # what killed processes leave goes with it
        if options.db == "sqlite":
            figures = campaign(lambda number: f"{folder}/{number}.db", None, **limits)
        else:
            from postgres_server import OPTIONS, PostgresServer

            OPTIONS["fsync"] = "off"  # the system itself is not killed here
            with closing(PostgresServer()) as server:
                figures = campaign(_databases(server), server, **limits)
    return told({"db": options.db, "seconds": round(time.monotonic() - began), **figures})


if __name__ == "__main__":
    sys.exit(main())
