"""Every verb that writes, as a campaign of kills uses it: what it may touch, then what it was promised.

A verb here is a generator. It first gives the records it may touch, ``{id: None}`` where they are new
or any of them may change on its own; then it does its work and gives what was acknowledged: what
`seen` returns of each record from now on, `TRASH` or `GONE`.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import jiyi
from jiyi.records import Fact, Item, Message, Query, Record, Scope, Step, Task, item_id

TRASH, GONE = "in the trash", "gone"
SESSIONS = ("one", "two")
SKILL = "---\nname: disks\ndescription: how to clean disks\n---\nRun df -h first.\n"

Touched = Mapping[str, str | None]
Verb = Callable[[jiyi.MemoryManager, random.Random], Iterator[Touched]]


def seen(record: Record) -> str:
    """Return what an acknowledgement promises of a record."""
    match record:
        case Message():
            return f"message {record.content}"
        case Task():
            return f"task {record.status}"
        case Step():
            return f"step {record.status} {record.result}"
        case Item():
            return f"item {record.value['one']}"
        case Fact():
            return "fact"  # which of several values is in force, newer words decide
    return type(record).__name__


def _words(drawn: random.Random) -> str:
    n = drawn.randrange(10_000)
    return drawn.choice([f"My port is {n}.", f"我住在{n}号楼。w{n}", f"disk of edge-{n} is full", f"w{n}"])


def _new(drawn: random.Random, count: int) -> list[dict[str, str]]:
    return [
        {"id": f"{drawn.getrandbits(64):016x}", "role": "user", "content": _words(drawn)}
        for _ in range(count)
    ]


def _some(memory: jiyi.MemoryManager, drawn: random.Random, most: int) -> list[Message]:
    there = list(memory.session_messages(drawn.choice(SESSIONS)))
    return drawn.sample(there, min(most, len(there)))


def save(memory: jiyi.MemoryManager, drawn: random.Random) -> Iterator[Touched]:
    said = _new(drawn, drawn.choices([1, 5, 110], [12, 6, 1])[0])
    yield {one["id"]: GONE for one in said}
    yield {one.id: seen(one) for one in memory.save_messages(drawn.choice(SESSIONS), said)}


def update(memory: jiyi.MemoryManager, drawn: random.Random) -> Iterator[Touched]:
    chosen = _some(memory, drawn, 1)
    yield {one.id: seen(one) for one in chosen}
    done = [memory.update(one.id, text=_words(drawn), pinned=drawn.random() < 0.3) for one in chosen]
    yield {one.id: seen(one) for one in done}


def pop(memory: jiyi.MemoryManager, drawn: random.Random) -> Iterator[Touched]:
    session = drawn.choice(SESSIONS)
    yield {one.id: seen(one) for one in list(memory.session_messages(session))[-2:]}
    yield {one.id: TRASH for one in memory.pop_messages(session, 2)}


def replace(memory: jiyi.MemoryManager, drawn: random.Random) -> Iterator[Touched]:
    session, said = drawn.choice(SESSIONS), _new(drawn, 3)
    before = list(memory.session_messages(session))
    yield {one.id: seen(one) for one in before} | {one["id"]: GONE for one in said}
    kept = memory.replace_messages(session, said)
    yield {one.id: TRASH for one in before} | {one.id: seen(one) for one in kept}


def forget(memory: jiyi.MemoryManager, drawn: random.Random) -> Iterator[Touched]:
    chosen, purge = _some(memory, drawn, 3), drawn.random() < 0.3
    yield {one.id: seen(one) for one in chosen}
    if chosen:
        memory.forget(ids=[one.id for one in chosen], purge=purge)
    yield {one.id: GONE if purge else TRASH for one in chosen}


def restore(memory: jiyi.MemoryManager, drawn: random.Random) -> Iterator[Touched]:
    scope = Scope(user_id=str(memory._settings.user_id))
    lying = memory._long_term.gate.trash.discarded(Query(scope=scope, kinds=("message",), limit=3))
    yield {one.record.id: TRASH for one in lying}
    if lying:
        memory.restore([one.record.id for one in lying])
    yield {one.record.id: seen(one.record) for one in lying}


def remember(memory: jiyi.MemoryManager, drawn: random.Random) -> Iterator[Touched]:
    yield {}
    learned = memory.remember(_words(drawn))
    yield {learned.kept: "fact"} if learned.kept else {}


def keep(memory: jiyi.MemoryManager, drawn: random.Random) -> Iterator[Touched]:
    place, number = ("kept", drawn.choice(["a", "ab"])), drawn.randrange(10_000)
    keys = drawn.sample("abcdefgh", drawn.choice([1, 2, 5]))
    there = {key: memory.get_item(place, key) for key in keys}
    scope = Scope(user_id=str(memory._settings.user_id))
    yield {item_id(scope, place, key): seen(one) if one else GONE for key, one in there.items()}
    puts = [{"namespace": place, "key": key, "value": {"one": number, "of": _words(drawn)}} for key in keys]
    yield {one.id: seen(one) for one in memory.put_items(puts)}


def task(memory: jiyi.MemoryManager, drawn: random.Random) -> Iterator[Touched]:
    yield {}
    begun = memory.start_task(drawn.choice(SESSIONS), _words(drawn), target="edge")
    yield {begun.id: seen(begun)}


def step(memory: jiyi.MemoryManager, drawn: random.Random) -> Iterator[Touched]:
    open_tasks = memory.tasks(status="in_progress")
    steps = [one for each in open_tasks for one in each.steps]
    if steps and drawn.random() < 0.5:
        chosen = drawn.choice(steps)
        yield {chosen.id: seen(chosen)}
        done = memory.update_step(chosen.id, status="completed", result=_words(drawn))
    elif open_tasks:
        yield {}
        done = memory.add_step(drawn.choice(open_tasks).id, _words(drawn))
    else:
        return
    yield {done.id: seen(done)}


def complete(memory: jiyi.MemoryManager, drawn: random.Random) -> Iterator[Touched]:
    open_tasks = memory.tasks(status="in_progress")
    if not open_tasks:
        return
    chosen = drawn.choice(open_tasks)
    yield {chosen.id: seen(chosen)}
    made = memory.complete_task(chosen.id, outcome="success", summary=_words(drawn))
    yield {chosen.id: "task completed", made.id: "Episode"}


def summarise(memory: jiyi.MemoryManager, drawn: random.Random) -> Iterator[Touched]:
    yield {}
    made = memory.summarize_session(drawn.choice(SESSIONS))
    yield {made.id: "Summary"} if made else {}


def look_after(memory: jiyi.MemoryManager, drawn: random.Random) -> Iterator[Touched]:
    yield {}
    drawn.choice([memory.run_consolidation, memory.run_forget_gate, memory.maintain, memory.flush])()
    yield {}


def learn(memory: jiyi.MemoryManager, drawn: random.Random) -> Iterator[Touched]:
    yield {}
    memory.learn_facts(drawn.choice(SESSIONS))
    yield {}


def transfer(memory: jiyi.MemoryManager, drawn: random.Random) -> Iterator[Touched]:
    yield {}
    with TemporaryDirectory() as folder:
        file = Path(folder) / "all.jsonl"
        receipt = memory.export(file)
        assert len(file.read_bytes().splitlines()) >= receipt.total, "an acknowledged export is whole"
        lines = [json.dumps({"role": "user", "content": _words(drawn)}) for _ in range(30)]
        file.with_name("more.jsonl").write_text("\n".join(lines), "utf-8")
        before = memory.stats()["message"]
        added = memory.import_(file.with_name("more.jsonl"), session_id="imported").added
        assert memory.stats()["message"] == before + added
    yield {}


def skill(memory: jiyi.MemoryManager, drawn: random.Random) -> Iterator[Touched]:
    yield {}
    if not memory.close_skill("one", "disks"):
        memory.open_skill("one", "disks")
    yield {}


VERBS: dict[Verb, int] = {
    save: 12, update: 3, pop: 2, replace: 2, forget: 3, restore: 3, remember: 2, keep: 4, task: 3, step: 4,
    complete: 3, summarise: 2, look_after: 3, learn: 1, transfer: 1, skill: 1,
}  # fmt: skip
"""Each verb and how often it comes."""
