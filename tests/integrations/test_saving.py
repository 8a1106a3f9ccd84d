"""Conversations that a framework keeps, without a framework: saved as they grow, shown as they fit."""

import json
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import raises

import jiyi
from jiyi.errors import DatabaseLocked
from jiyi.integrations.fitting import Fitting
from jiyi.integrations.langgraph_values import Packer, Row, RowCache, collect_refs, find_refs, unpack
from jiyi.integrations.recalling import Entry, Owner, Saver, read_conversation
from jiyi.records import Message
from jiyi.records.atoms import atoms
from jiyi.testing import HashEmbedder


def talk(*texts: str) -> list[Entry]:
    """Messages known by their first letter."""
    return [Entry(text[0], json.dumps({"t": text}), Message(role="user", content=text)) for text in texts]


def texts(owner: Owner) -> list[str]:
    return [message.text for message in read_conversation(owner)]


@pytest.fixture
def owner(memory):
    return Owner(memory, None, "s")


def test_each_message_is_saved_once(owner):
    saver = Saver()
    saver.save(owner, talk("a", "b"))
    ids = [message.id for message in read_conversation(owner)]
    saver.save(owner, talk("a", "b", "c"))
    Saver().save(owner, talk("a", "b", "c", "d"))
    saver.save(owner, talk("c", "d"))
    assert texts(owner) == ["a", "b", "c", "d"]
    assert [message.id for message in read_conversation(owner)][:2] == ids


@pytest.mark.parametrize("again", [True, False])
def test_a_changed_message_takes_the_place_of_the_one_before(owner, again):
    saver = Saver()
    saver.save(owner, talk("a", "b", "c"))
    owner.memory.save_message("s", role="user", content="by other means", id="b.1")
    (saver if again else Saver()).save(owner, talk("a", "b changed", "c", "d"))
    assert texts(owner) == ["a", "b changed", "c", "d", "by other means"]
    assert [hit.text for hit in owner.memory.search("changed", limit=1)] == ["b changed"]


def test_a_message_that_is_put_between_others_stands_there(owner):
    saver = Saver()
    saver.save(owner, talk("a", "d"))
    saver.save(owner, talk("0", "a", "b", "c", "d", "e"))
    assert texts(owner) == ["0", "a", "b", "c", "d", "e"]


@pytest.mark.parametrize("again", [True, False])
def test_what_was_forgotten_is_not_saved_again(owner, again):
    saver = Saver()
    saver.save(owner, talk("a", "b", "c"))
    owner.memory.forget(ids=[read_conversation(owner)[1].id])
    (saver if again else Saver()).save(owner, talk("a", "b", "c", "d"))
    assert texts(owner) == ["a", "c", "d"]


@pytest.mark.slow
def test_a_database_that_is_in_use_is_waited_for(open_memory, hold):
    owner = Owner(open_memory(lock_timeout=1), None, "s")
    Saver().save(owner, talk("0"))
    timer = Timer(1.5, hold())
    raises(DatabaseLocked, Saver().save, owner, talk("0", "a"))
    timer.start()
    Saver().save(owner, talk("0", "a"))
    timer.join()
    assert texts(owner) == ["0", "a"]


def test_no_window_shows_what_a_transaction_rolled_back(owner):
    memory = owner.memory

    def fail_after_reading():
        saved = memory.save_message("s", role="user", content="kept by nobody")
        assert memory.recent_messages("s") == [saved]
        raise KeyError

    raises(KeyError, memory.parts.run_in_transaction, fail_after_reading, None)
    kept = memory.save_message("s", role="user", content="kept")
    assert memory.recent_messages("s") == [kept]


TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {}}}


@pytest.fixture(scope="module")
def one_owner(tmp_path_factory):
    file = tmp_path_factory.mktemp("memory") / "a.db"
    with jiyi.open(file, user_id="ana", embedder=HashEmbedder(), background=False) as memory:
        yield Owner(memory, None, "s")


def said(role: str, words: int, call: str) -> Message:
    body = {"role": role, "content": "word " * words}
    if role == "tool":
        body["tool_call_id"] = call
    if role == "caller":
        function = {"name": "look_up", "arguments": "{}"}
        body |= {"role": "assistant", "tool_calls": [{"id": call, "type": "function", "function": function}]}
    return Message.from_openai(body)


MESSAGES = st.builds(
    said, st.sampled_from(["user", "assistant", "caller", "tool"]), st.integers(1, 60), st.sampled_from("ab")
)


@pytest.mark.slow
@given(st.lists(MESSAGES, max_size=30), st.integers(300, 900))
@settings(max_examples=30)
def test_what_is_shown_fits_and_every_call_has_its_results(one_owner, talk, budget):
    talk = [*talk, Message(role="user", content="And now?")]
    fitting = Fitting(one_owner.memory, budget, 100)
    fitted = fitting.fit(one_owner, talk, system="Be brief.", tools=[TOOL])
    shown = [talk[i] for i in fitted.kept]
    assert shown[-1].content == "And now?"
    assert all(atom.broken is None for atom in atoms(shown))
    assert fitted.tokens <= budget
    first, counter = Message(role="system", content="Be brief."), one_owner.memory.counter
    whole = counter.count_all([first, *shown]) + counter.count_tools([TOOL])
    assert whole + fitted.recalled.tokens == fitted.tokens


@pytest.mark.slow
def test_history_leaves_several_turns_at_a_time(one_owner):
    talk: list[Message] = []
    beginnings = []
    fitting = Fitting(one_owner.memory, 1_000, 100)
    for _ in range(60):
        talk += [said("user", 20, ""), said("assistant", 20, "")]
        beginnings.append(fitting.fit(one_owner, talk).kept[0])
    assert beginnings == sorted(beginnings)
    assert 5 <= sum(a != b for a, b in pairwise(beginnings)) <= 15


def test_a_memory_that_fails_leaves_the_conversation(open_memory):
    memory = open_memory()
    fitting = Fitting(memory, 1_000)
    memory.close()
    fitted = fitting.fit(Owner(memory, None, "s"), [said("user", 5, "")])
    assert fitted.kept == (0,)
    assert fitted.recalled.notes


HERE = Path(__file__).parent
PAGES = [HERE.parents[1] / "docs" / folder / "integrations.md" for folder in ("", "zh")]
ORDER = ("history", "window", "recall", "delete")
ROW = re.compile(r"^\| ([a-z-]+) \| (`Jiyi.*?) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|", re.MULTILINE)
KEEPS = re.compile(r"keeps = frozenset\(\{(.*?)\}\)")


@pytest.mark.parametrize("page", PAGES, ids=["en", "zh"])
def test_the_documentation_says_which_promises_concern_which(page):
    rows = [cells for _, _, *cells in ROW.findall(page.read_text("utf-8"))]
    told = [sorted(name for name, cell in zip(ORDER, cells, strict=True) if cell != "–") for cells in rows]
    files = [file.read_text("utf-8") for file in HERE.glob("*/promised_*.py")]
    kept = [sorted(re.findall(r"\w+", found[1])) for text in files if (found := KEEPS.search(text))]
    assert len(kept) == len(files)
    assert sorted(told) == sorted([*kept, []]), "the checkpointer keeps states and has none of them"


class Serde:
    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return "json", json.dumps(obj).encode()

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return json.loads(data[1])


class Store:
    """Rows as a database keeps them: as JSON."""

    def __init__(self) -> None:
        self.rows: dict[str, str] = {}

    def put(self, value: Any, known: Iterable[str]) -> tuple[Any, Packer]:
        packer = Packer(Serde(), known)
        packed = json.loads(json.dumps(packer.pack(value)))
        assert not self.rows.keys() & packer.new.keys()
        self.rows |= {ref: json.dumps(row) for ref, row in packer.new.items()}
        return packed, packer

    def read(self, refs: Iterable[str]) -> Mapping[str, Row]:
        return {ref: json.loads(self.rows[ref]) for ref in refs}

    def refs(self) -> dict[str, list[str]]:
        return {ref: str(json.loads(row).get("refs", "")).split() for ref, row in self.rows.items()}


written = st.text(max_size=300) | st.integers(0, 9).map(lambda n: f"{n}字 " * 200)
leaves = written | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(max_size=9), inner, max_size=9),
)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.lists(values, max_size=4), min_size=1, max_size=6))
def test_values_come_back_equal(steps):
    store, known = Store(), set[str]()
    for step in steps:
        for value in step:
            packed, packer = store.put(value, known)
            known |= packer.refs
            assert unpack([packed], Serde(), store.read) == [value]
            assert find_refs([packed], store.read) == packer.refs
            assert collect_refs([packed], store.refs()) >= packer.refs
            again, second = store.put(value, known)
            assert (again, second.new, second.refs) == (packed, {}, packer.refs)


def test_what_grows_at_its_end_adds_what_is_new():
    store, known, talk = Store(), set[str](), list[str]()
    for turn in range(600):
        talk.append(f"{turn} {'words ' * 50}")
        packed, packer = store.put(talk, known)
        known = packer.refs
        assert len(packer.new) <= 4  # the element, and one of each level at most
        assert len(json.dumps(packed)) < 2_000
    assert len(store.rows) < 600 * 1.1
    assert unpack([packed], Serde(), store.read) == [talk]


def test_a_value_longer_than_a_row_is_cut():
    store = Store()
    value = {"a": "".join(chr(33 + n * n % 90) + str(n) for n in range(400_000)), "b": [1]}
    packed, packer = store.put(value, ())
    assert max(map(len, store.rows.values())) < 600_000
    assert unpack([packed], Serde(), store.read) == [value]
    assert collect_refs([packed], store.refs()) == set(store.rows)
    assert packer.new.keys() == set(store.rows)


def test_no_more_rows_are_held_than_may_be():
    store = Store()
    asked = list[str]()

    def read(refs: Iterable[str]) -> Mapping[str, Row]:
        asked.extend(refs)
        return store.read(refs)

    refs = sorted(store.put([f"{n} {'words ' * 50}" for n in range(100)], ())[1].refs)
    rows = RowCache(5_000)
    assert rows.get(refs, read).keys() == set(refs)
    rows.get(refs[:1], read)
    few = len(asked)
    rows.get(refs[:1], read)
    assert len(asked) == few
    rows.get(refs, read)
    assert len(asked) > few + 50
