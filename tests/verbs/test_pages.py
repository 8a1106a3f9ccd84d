"""Lists in parts: whatever comes and goes between two parts, what stays is seen once."""

import base64
import json
import random
from datetime import timedelta
from functools import partial
from itertools import islice

import pytest
from doing import say
from pydantic import TypeAdapter
from refusing import refused

from jiyi import Listing, Task
from jiyi.errors import BadQuery
from jiyi.testing import ManualClock

OTHER = {"user_id": "ben"}


def talk(memory, name):
    memory.save_message(f"s{name}", role="user", content=f"word {name}")
    memory.save_message("s0", role="user", content=f"more {name}")  # one goes on while it is listed


def episode(memory, name):
    memory.complete_task(memory.start_task("work", f"job {name}", target=f"t{name}").id)


def remembered(subject, predicate, value):
    return lambda memory, n: memory.remember(
        subject=subject.format(n), predicate=predicate.format(n), object=value.format(n)
    )


# How a record comes, and how the list is read.
LISTS = {
    "sessions": (talk, "sessions"),
    "session_messages": (lambda m, n: say(m, f"word {n}"), "session_messages", "s"),
    "tasks": (lambda m, n: m.start_task("s", f"job {n}"), "tasks"),
    "episodes": (episode, "episodes"),
    "facts": (remembered("thing {}", "is", "value {}"), "facts"),
    "facts about": (remembered("edge-01", "point {}", "value {}"), "facts", "the edge-01 gateway"),
    "history": (remembered("edge-01", "port", "port {}"), "history", "edge-01"),
    "items": (lambda m, n: m.put_item("things", n, {"n": n}), "items", "things"),
}


def parts(read, limit, meanwhile=lambda: None):
    """Read a list in parts; `meanwhile` happens between two."""
    seen, part = [], read(limit=limit)
    while True:
        assert len(part) <= limit
        seen.append([record.id for record in part])
        if part.next is None:
            return seen
        meanwhile()
        part = read(limit=limit, after=part.next)


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTS)
def test_what_stays_is_seen_once_whatever_comes_and_goes(open_memory, place, name):
    come, verb, *about = LISTS[name]
    drawn, clock = random.Random(name), ManualClock()
    memory = open_memory(place, clock=clock)
    read = partial(getattr(memory, verb), *about)

    def add(number):
        clock.forward(seconds=drawn.choice([0, 0, 1]))  # several at one moment
        come(memory, f"{number:02}")

    def shake():
        for number in islice(numbers, drawn.randrange(4)):
            add(number)
        there = [record.id for record in read(limit=1_000) if record.id != "s0"]
        for gone in drawn.sample(there, k=min(len(there), drawn.randrange(2))):
            memory.forget(**({"session_id": gone} if name == "sessions" else {"ids": [gone]}))

    numbers = iter(range(24, 100))
    for number in range(24):
        add(number)
    clock.forward(seconds=1)
    for limit in (1, 3, 7):
        before = {record.id for record in read(limit=1_000)}
        seen = [id_ for part in parts(read, limit, shake) for id_ in part]
        stayed = before & {record.id for record in read(limit=1_000)}
        assert len(stayed) > 3
        assert [seen.count(id_) for id_ in stayed] == [1] * len(stayed)
        assert len(seen) == len(set(seen))
        clock.forward(seconds=1)


@pytest.mark.parametrize("name", LISTS)
def test_parts_together_are_the_whole_list(open_memory, clock, name):
    come, verb, *about = LISTS[name]
    memory = open_memory(clock=clock)
    read = partial(getattr(memory, verb), *about)
    for number in range(12):
        come(memory, f"{number:02}")
    whole = [record.id for record in read(limit=100)]
    assert len(whole) >= 12
    for limit in (1, 4, len(whole)):
        seen = parts(read, limit)
        if name in ("session_messages", "facts", "facts about"):  # each part older than the one before it
            seen.reverse()
        assert [id_ for part in seen for id_ in part] == whole
        assert all(seen)


def test_facts_of_another_time_come_in_parts(open_memory, clock):
    memory = open_memory(clock=clock)
    for number in range(9):
        memory.remember(subject=f"thing {number}", predicate="is", object="old")
    then = clock()
    clock.forward(days=1)
    for number in range(9):
        memory.remember(subject=f"thing {number}", predicate="is", object="new")
    seen = [id_ for part in parts(partial(memory.facts, as_of=then + timedelta(hours=1)), 4) for id_ in part]
    assert sorted(seen) == sorted(fact.id for fact in memory.facts(status="superseded"))


def forged(*place):
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def test_wrong_and_foreign_cursors_are_refused(memory):
    for number in range(3):
        memory.start_task("s", f"job {number}")
        memory.save_message("s", role="user", content="word")
    cursor = memory.tasks(limit=1).next
    assert memory.tasks(limit=2, after=cursor).next is None
    digest = json.loads(base64.urlsafe_b64decode(cursor + "=="))[0]
    for wrong in (
        "", "x", "?", "你好", "A" * 100_000, "W" * 20_000, 7, [], b"x", forged(), forged(digest),
        forged(digest, 1), forged(digest, "1", "x"), forged(digest, True, "x"), forged(digest, 2**70, "x"),
        forged(digest, 1, 1, "x"), forged(digest, 1, "\0"), forged(digest, 1, None), forged(digest, 1.5, "x"),
    ):  # fmt: skip
        refused(BadQuery, "after=", memory.tasks, after=wrong)
    for foreign in (
        lambda: memory.episodes(after=cursor),
        lambda: memory.facts(after=cursor),
        lambda: memory.history("x", after=cursor),
        lambda: memory.session_messages("s", after=cursor),
        lambda: memory.tasks(status="failed", after=cursor),
        lambda: memory.tasks(after=cursor, **OTHER),
        lambda: memory.session_messages("t", after=memory.session_messages("s", limit=1).next),
    ):
        refused(BadQuery, "another list", foreign)


def test_a_part_is_a_list_and_comes_back_from_json(memory):
    assert memory.sessions() == [] == memory.facts()
    found = memory.sessions()
    assert isinstance(found, list)
    assert isinstance(found, Listing)
    assert found.next is None
    for number in range(2):
        memory.start_task("s", f"job {number}")
    whole, form = memory.tasks(limit=1), TypeAdapter(Listing[Task])
    read = form.validate_json(form.dump_json(whole))
    assert (type(read), read, read.next) == (Listing, whole, whole.next)
    assert form.json_schema()["required"] == ["items"]
