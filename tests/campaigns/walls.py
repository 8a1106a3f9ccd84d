"""Random verbs of 50 users with three agents each on one memory: no answer holds anything of somebody else.

    python tests/campaigns/walls.py [--minutes N] [--operations N] [--seed S] [--threads N] [--db PLACE]

PLACE is ``sqlite`` (a new file), ``postgres`` (a new server, with row level security) or a URL, such as
that of a Citus cluster's coordinator. `tests/server/walls_http.py` does the same over HTTP.

The oracle: users call sessions and messages by the same names, and every text carries the mark of its
user and agent. Whatever a verb gives back, a record, a window, a count, an error or an export, is searched
for marks of other users, where an agent asks also for those of the user's other agents, and for ids that
were given to other users. An id of somebody else is as unknown as one that nobody has, in the same words.
The figures of a user who does nothing stay what they are. Prints one table as JSON; exit code 1 on a fault.
"""

import random
import re
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from at_once import at_once
from campaign_run import asked, folder_in_memory, told

import jiyi
from jiyi.errors import JiyiError
from jiyi.testing import HashEmbedder

USERS, AGENTS, SESSIONS = 50, (None, "a1", "a2"), ("main", "work")
STILL = "still"
MARK = re.compile(r"mark(\w+?)x(\w+?)zz")
ID = re.compile(r"\b[0-9a-f]{32}\b")
QUERIES = ("Which port?", "where do I live", "喜欢喝什么", "tea", "mark street", "said")
FEW = 60  # messages of a user from which on most are forgotten again
RECENT = 5_000  # ids that are tried in verbs of others


class World:
    """One memory, who was given which id, and what was seen."""

    def __init__(self, memory: jiyi.MemoryManager, folder: Path) -> None:
        self.memory, self.folder = memory, folder
        self.owners: dict[str, str] = {}
        self.recent: deque[str] = deque(maxlen=RECENT)
        self.counts: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.faults: list[str] = []
        self.lock = Lock()
        memory.save_message("main", role="user", content="markstillxNonezz said one thing", user_id=STILL)
        memory.flush()
        self.still = self.figures()

    def fault(self, what: str) -> None:
        """Note what is wrong, and say it at once: a run may take hours."""
        with self.lock:
            self.faults.append(what)
        print(what, file=sys.stderr, flush=True)

    def figures(self) -> dict[str, int]:
        """Return the figures of the user who does nothing."""
        return dict(self.memory.stats(user_id=STILL))


class Me:
    """A user, as one of the agents, who does one thing."""

    def __init__(self, world: World, drawn: random.Random) -> None:
        self.world, self.drawn, self.memory = world, drawn, world.memory
        self.user, self.agent = f"u{drawn.randrange(USERS)}", drawn.choice(AGENTS)
        self.who = {"user_id": self.user, "agent_id": self.agent}
        self.session = drawn.choice(SESSIONS)

    def text(self) -> str:
        """Return something to say, with the mark."""
        n, mark = self.drawn.randrange(1_000), f"mark{self.user}x{self.agent}zz"
        return self.drawn.choice(
            [
                f"My port is {n}, says {mark}.",
                f"I live in {mark} street {n}. 我喜欢喝茶 {n}",
                f"Please remember: {mark} prefers tea {n}.",
                f"{mark} said {n}",
            ]
        )

    def query(self) -> str:
        """Return something to ask."""
        return self.drawn.choice(QUERIES)

    def ids(self, *, mine: bool) -> list[str]:
        """Return an id of one's own or of somebody else's, if there is one."""
        with self.world.lock:
            recent = self.world.recent
            some = [recent[self.drawn.randrange(len(recent))] for _ in range(50 if recent else 0)]
            return [id_ for id_ in some if (self.world.owners[id_] == self.user) == mine][:1]

    def check(self, verb: str, answer: object, *, keeps: bool) -> None:
        """Look in an answer for what is not one's own."""
        told = str(answer) if isinstance(answer, BaseException | str) else repr(answer)
        marks = MARK.findall(told)
        foreign = {user for user, _ in marks} - {self.user}
        if self.agent is not None:
            foreign |= {agent for _, agent in marks} - {self.agent, "None"}
        with self.world.lock:
            owners = self.world.owners
            for id_ in ID.findall(told):
                if keeps and id_ not in owners:
                    owners[id_] = self.user
                    self.world.recent.append(id_)
                foreign |= {owners.get(id_)} - {self.user, None}
        for other in foreign:
            at = max(0, told.find(f"x{other}zz" if other in AGENTS else str(other)) - 300)
            part = told[at : at + 600]
            self.world.fault(f"{verb} of {self.user} and {self.agent} tells of {other}: {part}")


def save(me: Me) -> Any:
    named = {"id": f"m-{me.drawn.randrange(300)}"} if me.drawn.random() < 0.3 else {}
    said = {"role": me.drawn.choice(["user", "assistant"]), "content": me.text()}
    return me.memory.save_message(me.session, said | named, **me.who)


def change_end(me: Me) -> Any:
    if me.drawn.random() < 0.7:
        return me.memory.pop_messages(me.session, 2, **me.who)
    return me.memory.replace_messages(me.session, [{"role": "user", "content": me.text()}], **me.who)


def look_around(me: Me) -> Any:
    of_session = ("session_messages", "recent_messages", "summary", "summarize_session", "handover")
    of_session += ("session_health", "session_advice", "current_task", "learn_facts")
    of_user = ("sessions", "tasks", "episodes", "knowledge", "facts", "profile", "stats")
    name = me.drawn.choice(of_session + of_user)
    return getattr(me.memory, name)(*[me.session] * (name in of_session), **me.who)


def ask(me: Me) -> Any:
    memory = me.memory
    return me.drawn.choice(
        [
            lambda: memory.search(me.query(), limit=20, around=2, **me.who),
            lambda: memory.build_context(me.session, me.query(), 1_000, **me.who),
            lambda: [
                memory.search_episodes(me.query(), **me.who),
                memory.search_knowledge(me.query(), **me.who),
            ],
            lambda: [memory.history("user", **me.who), memory.neighbours("user", **me.who)],
        ]
    )()


def remember(me: Me) -> Any:
    return me.memory.remember(me.text(), pinned=me.drawn.random() < 0.2, **me.who)


def keep(me: Me) -> Any:
    """Put an item and look around it, by labels that are alike for all."""
    place, key, memory = ("acme", me.drawn.choice(["x", "x-y"])), f"k{me.drawn.randrange(9)}", me.memory
    return [
        memory.put_item(place, key, {"said": me.text()}, **me.who),
        memory.get_item(place, key, **me.who),
        *memory.get_items(place, ["k1", key], **me.who),
        memory.item_history(place, key, **me.who),
        memory.items("acme", **me.who),
        memory.namespaces(**me.who),
    ]


def task(me: Me) -> Any:
    begun = me.memory.start_task(me.session, me.text(), target=me.user, **me.who)
    step = me.memory.add_step(begun.id, me.text(), **me.who)
    done = me.memory.update_step(step.id, status="completed", result=me.text(), **me.who)
    return [begun, step, done, me.memory.complete_task(begun.id, summary=me.text(), **me.who)]


def trespass(me: Me) -> Any:
    """Try an id of somebody else in a verb that takes one."""
    memory, who = me.memory, me.who
    attempt: Callable[[str], Any] = me.drawn.choice(
        [
            lambda id_: memory.get(id_, **who),
            lambda id_: memory.open_output(id_, **who),
            lambda id_: memory.update(id_, pinned=True, **who),
            lambda id_: memory.update_task(id_, summary="x", **who),
            lambda id_: memory.update_step(id_, status="completed", **who),
            lambda id_: memory.add_step(id_, "x", **who),
            lambda id_: memory.complete_task(id_, **who),
            lambda id_: memory.pin(id_, **who),
            lambda id_: memory.forget(ids=[id_], dry_run=True, **who).counts,
            lambda id_: memory.restore([id_], **who).counts,
        ]
    )

    def told(id_: str) -> str:
        try:
            return repr(attempt(id_))
        except JiyiError as error:
            return f"{type(error).__name__}: {error}".replace(id_, "ID")

    for id_ in me.ids(mine=False):
        answers = told(id_), told(f"{me.drawn.getrandbits(128):032x}")
        if answers[0] != answers[1]:
            me.world.fault(f"an id of others is told apart: {answers}")
    return None


def forget(me: Me) -> Any:
    how = me.drawn.random()
    if me.memory.stats(**me.who)["message"] > FEW and how < 0.8:
        return me.memory.forget(session_id=me.session, purge=how < 0.1, **me.who)
    if how < 0.5:
        gone = me.memory.forget(ids=me.ids(mine=True), **me.who)
    else:
        gone = me.memory.forget(me.drawn.choice(["tea", "street", me.user]), dry_run=how < 0.9, **me.who)
    return [gone, me.memory.restore(forgotten_at=gone.at, **me.who)] if me.drawn.random() < 0.7 else gone


def transfer(me: Me) -> Any:
    file = me.world.folder / f"{me.drawn.getrandbits(64)}"
    try:
        me.memory.export(file, format=me.drawn.choice(["jsonl", "markdown"]), **me.who)
        return file.read_text("utf-8")
    finally:
        file.unlink(missing_ok=True)


def look_after(me: Me) -> Any:
    name = me.drawn.choice(["maintain", "run_consolidation", "run_forget_gate", "flush"])
    return getattr(me.memory, name)(**me.who if name != "flush" else {})


def still(me: Me) -> Any:
    now = me.world.figures()
    if now != me.world.still:
        me.world.fault(f"figures of a user who does nothing: {me.world.still}, then {now}")
    return None


VERBS: dict[Callable[[Me], Any], int] = {
    save: 24, change_end: 4, look_around: 14, ask: 16, remember: 6, keep: 6, task: 3, trespass: 14, forget: 6,
    transfer: 1, look_after: 1, still: 2,
}  # fmt: skip


def walk(world: World, operations: int, until: float, seed: int) -> None:
    """Let random users do random things, one after the other."""
    drawn = random.Random(seed)
    for _ in range(operations):
        if time.monotonic() > until or len(world.faults) > 20:
            return
        me, (verb,) = Me(world, drawn), drawn.choices(list(VERBS), list(VERBS.values()))
        try:
            me.check(verb.__name__, verb(me), keeps=verb in (task, remember))
        except JiyiError as error:
            me.check(verb.__name__, error, keeps=False)
            with world.lock:
                world.errors[type(error).__name__] += 1
        with world.lock:
            world.counts[verb.__name__] += 1
            if sum(world.counts.values()) % 5_000 == 0:
                told = f"{sum(world.counts.values())} operations, {len(world.faults)} faults"
                print(told, file=sys.stderr, flush=True)


@contextmanager
def opened(place: str) -> Iterator[World]:
    """Open a memory at a place; see above."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(folder_in_memory()))
        url = str(folder / "walls.db") if place == "sqlite" else place
        if place == "postgres":
            from postgres_server import PostgresServer

            url = stack.enter_context(closing(PostgresServer())).make()
        # Records wait for their vectors until somebody happens to flush: a worker takes as long as all verbs.
        yield World(stack.enter_context(jiyi.open(url, embedder=HashEmbedder(64), background=False)), folder)


def campaign(place: str, *, operations: int, seconds: float, threads: int, seed: int) -> dict[str, Any]:
    """Let users do random things in several threads and return what was seen."""
    with opened(place) as world:
        began = time.monotonic()
        until, each = began + seconds, operations // threads
        at_once(lambda n: walk(world, each, until, 1_000 * seed + n), range(threads))
        return {
            "operations": sum(world.counts.values()),
            "seconds": round(time.monotonic() - began),
            "verbs": dict(world.counts),
            "errors": dict(world.errors),
            "faults": world.faults,
        }


def main() -> int:
    """Run it and print the figures."""
    options = asked(__doc__, operations=1_000_000, threads=4, db="sqlite")
    limits = {"operations": options.operations, "threads": options.threads, "seed": options.seed}
    return told(campaign(options.db, seconds=60 * options.minutes, **limits))


if __name__ == "__main__":
    sys.exit(main())
