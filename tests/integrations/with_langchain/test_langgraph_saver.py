"""The LangGraph checkpointer: its conformance suite, real graphs, users, deletion, growth, kills."""

import operator
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from refusing import refused

pytest.importorskip("langgraph.checkpoint.base")

import ormsgpack
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

import jiyi
from jiyi.errors import InputError, ScopeMissing
from jiyi.integrations.langgraph import JiyiStore
from jiyi.integrations.langgraph_saver import JiyiSaver

Config = dict[str, Any]


def at(thread: str = "t", **named: Any) -> Config:
    return {"configurable": {"thread_id": thread, **named}}


def chat(saver: Any) -> Any:
    def answer(state: MessagesState) -> dict[str, Any]:
        n = len(state["messages"])
        return {"messages": [AIMessage(f"answer {n} 回答", id=f"a{n}")]}

    return StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile(checkpointer=saver)


def say(graph: Any, text: str, config: Config) -> list[str]:
    found = graph.invoke({"messages": [HumanMessage(text, id=text)]}, config)
    return [message.content for message in found["messages"]]


def kinds(memory: jiyi.MemoryManager) -> Counter[str]:
    """Count the items of all threads by their kind."""
    page = memory.items(("langgraph",), limit=1_000)
    found = Counter(item.namespace[1] for item in page)
    while page.next is not None:
        page = memory.items(("langgraph",), limit=1_000, after=page.next)
        found.update(item.namespace[1] for item in page)
    return found


async def test_conformance(open_memory, tmp_path):
    @checkpointer_test(name="jiyi")
    async def savers() -> Any:
        with open_memory(tmp_path / f"{os.urandom(4).hex()}.db") as memory:
            yield JiyiSaver(memory)

    report = await validate(savers)
    failed = {name: one.failures for name, one in report.results.items() if one.failures or not one.passed}
    assert failed == {}
    assert len(report.results) == 8
    assert report.passed_all()


def test_neither_a_store_in_the_same_memory_nor_search_shows_checkpoints(memory):
    say(chat(JiyiSaver(memory)), "hello blue door", at())
    assert list(memory.search("blue door")) == []
    store = JiyiStore(memory)
    store.put(("notes",), "a", {"text": "green tea"})
    assert store.list_namespaces() == [("notes",)]
    assert [item.key for item in store.search(())] == ["a"]
    assert [item.key for item in store.search((), query="hello tea")] == ["a"]


class Trip(TypedDict):
    log: Annotated[list[str], operator.add]
    bought: dict[str, int]


def trip(saver: Any) -> Any:
    """A graph with a subgraph that asks back, and two nodes that run at once."""

    def book(state: Trip) -> dict[str, Any]:
        seat = interrupt({"which seat?": ["window", "aisle"]})
        return {"log": [f"booked {seat}"], "bought": {"票": 1}}

    inner = StateGraph(Trip).add_node(book).add_edge(START, "book").compile()
    outer = StateGraph(Trip).add_node("plan", lambda _: {"log": ["planned"]}).add_node("inner", inner)
    outer.add_node("left", lambda _: {"log": ["left"]}).add_node("right", lambda _: {"log": ["right"]})
    outer.add_edge(START, "plan").add_edge("plan", "inner")
    for name in ("left", "right"):
        outer.add_edge("inner", name).add_edge(name, END)
    return outer.compile(checkpointer=saver)


def told(snapshot: Any) -> Any:
    """Return a snapshot without ids and times."""
    asked = [(task.name, [i.value for i in task.interrupts]) for task in snapshot.tasks]
    return snapshot.values, snapshot.next, asked, snapshot.metadata["source"], snapshot.metadata["step"]


def travelled(saver: Any) -> list[Any]:
    graph, config = trip(saver), at()
    seen = [graph.invoke({"log": ["go"], "bought": {}}, config)["log"]]
    seen.append(told(graph.get_state(config, subgraphs=True)))
    seen.append(graph.invoke(Command(resume="window"), config))
    history = list(graph.get_state_history(config))
    asked = next(one for one in history if one.next == ("inner",))
    seen.append(graph.invoke(Command(resume="aisle"), asked.config))
    graph.update_state(asked.config, {"log": ["changed"]}, as_node="plan")
    seen.append(graph.invoke(None, config)["log"])
    return [*seen, *map(told, graph.get_state_history(config))]


async def travelled_async(saver: Any) -> list[Any]:
    graph, config = trip(saver), at()
    seen = [(await graph.ainvoke({"log": ["go"], "bought": {}}, config))["log"]]
    seen.append(await graph.ainvoke(Command(resume="window"), config))
    asked = [one async for one in graph.aget_state_history(config) if one.next == ("inner",)][-1]
    seen.append(await graph.ainvoke(Command(resume="aisle"), asked.config))
    return [*seen, *[told(one) async for one in graph.aget_state_history(config, limit=7)]]


def test_interrupts_time_travel_and_subgraphs_as_in_memory(memory):
    assert travelled(JiyiSaver(memory)) == travelled(InMemorySaver())


async def test_async_graphs_as_in_memory(memory):
    assert await travelled_async(JiyiSaver(memory)) == await travelled_async(InMemorySaver())


@pytest.mark.parametrize("thread", ["a/b:c|d%", "线程 1", "x" * 400])
def test_any_name_of_a_thread(memory, thread):
    graph = chat(JiyiSaver(memory))
    say(graph, "hello", at(thread))
    assert say(graph, "again", at(thread)) == ["hello", "answer 1 回答", "again", "answer 3 回答"]
    assert chat(JiyiSaver(memory)).get_state(at(thread[:-1])).values == {}


def test_writes_stay_and_special_ones_are_replaced(memory):
    saver = JiyiSaver(memory)
    here = saver.put(at(checkpoint_ns=""), empty_checkpoint(), {"source": "input", "step": -1}, {})
    saver.put_writes(here, [("a", 1), ("b", 2)], "task", "~2")
    saver.put_writes(here, [("a", 3), ("__interrupt__", "first")], "task", "~2")
    saver.put_writes(here, [("__interrupt__", "second")], "task", "~2")
    saver.put_writes(here, [("c", 4)], "before", "~1")
    found = saver.get_tuple(here)
    assert found is not None
    kept = [("task", "__interrupt__", "second"), ("task", "a", 1), ("task", "b", 2)]
    assert found.pending_writes == [("before", "c", 4), *kept]


@dataclass
class Seat:
    row: int


def test_data_that_would_import_code_is_refused(memory, tmp_path, monkeypatch):
    (tmp_path / "never_imported.py").write_text("def run(argument):\n    return 'it ran'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    saver = JiyiSaver(memory)
    bad = ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("never_imported", "run", "argument"))))
    assert saver.serde.loads_typed(("msgpack", bad)) == "argument"
    assert "never_imported" not in sys.modules
    with pytest.raises(NotImplementedError):
        saver.serde.loads_typed(("pickle", b"cposix\nsystem\n(S'true'\ntR."))


def test_classes_are_allowed_by_name(memory):
    checkpoint = empty_checkpoint() | {"channel_values": {"seat": Seat(3)}, "channel_versions": {"seat": 1}}
    here = JiyiSaver(memory).put(at(checkpoint_ns=""), checkpoint, {}, {"seat": 1})
    plain = JiyiSaver(memory).get_tuple(here)
    allowed = JiyiSaver(memory, allow=[Seat]).get_tuple(here)
    assert plain is not None
    assert allowed is not None
    assert plain.checkpoint["channel_values"] == {"seat": {"row": 3}}
    assert allowed.checkpoint["channel_values"] == {"seat": Seat(3)}
    refused(InputError, "allow", JiyiSaver, memory, serde=JiyiSaver(memory).serde, allow=[Seat])
    for wrong in ("__main__", ["__main__.Seat"]):
        refused(InputError, "list of classes", JiyiSaver, memory, allow=wrong)


def test_users_never_meet(open_memory):
    with open_memory(user_id=None) as memory:
        saver = JiyiSaver(memory)
        graph = chat(saver)
        for user in ("acme", "acme-corp", "Acme"):
            say(graph, f"I am {user}", at(user_id=user))
        newest = graph.get_state(at(user_id="acme"))
        assert say(graph, "and", newest.config)[0] == "I am acme"
        by_context = JiyiSaver(memory, user_of=lambda config: config["configurable"].get("tenant"))
        assert say(chat(by_context), "hm", at(tenant="acme-corp"))[0] == "I am acme-corp"
        saver.for_user("acme-corp").prune(["t"], strategy="delete")
        assert list(saver.for_user("acme-corp").list(None)) == []
        assert len(list(saver.for_user("acme").list(None))) == 6
        assert len(list(saver.for_user("Acme").list(at(user_id="acme")))) == 3
        with pytest.raises(ScopeMissing):
            saver.delete_thread("t")


def test_forgetting_a_conversation_takes_its_thread_along(memory):
    saver = JiyiSaver(memory)
    graph = chat(saver)
    for thread in ("t", "t2"):
        say(graph, "hello", at(thread))
        memory.save_message(thread, {"role": "user", "content": f"I live in Porto {thread}."})
    saver.delete_thread("t")
    assert saver.get_tuple(at()) is None
    assert memory.session_messages("t") == []
    assert len(list(saver.list(None))) == 3
    before = graph.get_state(at("t2"))
    memory.restore(forgotten_at=memory.forget(session_id="t2").at)
    assert told(graph.get_state(at("t2"))) == told(before)
    assert memory.session_messages("t2")[0].text == "I live in Porto t2."


def test_a_thread_grows_by_what_is_new(memory):
    graph = chat(JiyiSaver(memory))
    rows = list[int]()
    for turn in range(40):
        say(graph, f"question {turn} {'words ' * 40}", at())
        rows.append(kinds(memory)["values"])
    assert rows[39] - rows[19] <= 1.2 * (rows[19] - rows[0] + rows[19] // 19)


def test_pruning_keeps_the_newest_and_takes_what_nothing_needs(memory):
    saver = JiyiSaver(memory)
    graph = chat(saver)
    for turn in range(40):
        before = say(graph, f"question {turn} {'words ' * 40}", at())
    saver.copy_thread("t", "copy")
    saver.prune(["t"])
    left = kinds(memory)
    assert left["checkpoints"] == 1 + 3 * 40
    graph.update_state(at(), {"messages": [HumanMessage("more", id="more")]})
    assert [m.content for m in graph.get_state(at()).values["messages"]] == [*before, "more"]
    assert len(list(graph.get_state_history(at("copy")))) == 3 * 40
    saver.prune(["t", "copy"], strategy="delete")
    assert kinds(memory) == {}
    refused(InputError, "strategy", saver.prune, ["t"], strategy="some")


async def test_deleting_runs_takes_their_checkpoints_everywhere(memory):
    saver = JiyiSaver(memory)
    for thread in ("t", "t2"):
        for run in ("keep", "drop"):
            value = f"{run} {'words ' * 100}"
            checkpoint = empty_checkpoint() | {"channel_values": {"c": value}, "channel_versions": {"c": 1}}
            saver.put(at(thread, checkpoint_ns=""), checkpoint, {"run_id": run}, {"c": 1})
    await saver.adelete_for_runs(["drop"])
    left = list(saver.list(None))
    assert [one.metadata.get("run_id") for one in left] == ["keep", "keep"]
    assert all(one.checkpoint["channel_values"]["c"].startswith("keep") for one in left)
    assert kinds(memory) == {"checkpoints": 2, "values": 2}


def test_delta_channels_outlive_pruning(memory):
    class Notes(TypedDict):
        notes: Annotated[list[str], DeltaChannel(lambda held, new: [*held, *(n for one in new for n in one)])]

    saver = JiyiSaver(memory)
    graph = StateGraph(Notes).add_node("same", lambda _: {"notes": ["noted"]}).add_edge(START, "same")
    compiled = graph.compile(checkpointer=saver)
    for turn in range(5):
        compiled.invoke({"notes": [f"{turn}"]}, at())
    before = compiled.get_state(at()).values
    saver.prune(["t"])
    assert compiled.get_state(at()).values == before
    assert len(before["notes"]) == 10


def test_values_longer_than_an_item_may_be(memory):
    saver = JiyiSaver(memory)
    graph = chat(saver)
    long = os.urandom(1_500_000).hex()
    say(graph, "before", at())
    graph.update_state(at(), {"messages": [HumanMessage(long, id="long")]})
    saver.prune(["t"])
    assert [m.content for m in chat(JiyiSaver(memory)).get_state(at()).values["messages"]][-1] == long


def test_the_newest_checkpoint_is_listed_without_the_others(memory, monkeypatch):
    saver, items = JiyiSaver(memory), memory.items

    def put(id: str, ns: str) -> None:
        checkpoint = {**empty_checkpoint(), "id": id}
        saver.put(at(checkpoint_ns=ns), checkpoint, {"source": "loop", "step": int(id)}, {})

    def listed(limit: int | None, **named: Any) -> list[str]:
        return [one.config["configurable"]["checkpoint_id"] for one in saver.list(at(**named), limit=limit)]

    def only_writes(namespace: Any, **asked: Any) -> Any:
        assert namespace[1] == "writes"
        return items(namespace, **asked)

    for id, ns in (("3", ""), ("1", ""), ("4", "sub"), ("2", "sub")):
        put(id, ns)
    assert listed(None) == ["4", "3", "2", "1"]
    with monkeypatch.context() as patched:
        patched.setattr(memory, "items", only_writes)
        assert listed(1) == listed(1, checkpoint_ns="sub") == ["4"]
        assert listed(1, checkpoint_ns="") == ["3"]
        assert listed(9, checkpoint_ns="", checkpoint_id="1") == listed(9, checkpoint_id="1") == ["1"]
    saver.prune(["t"])  # which namespace has which newest one is no longer noted
    put("0", "")
    assert (listed(1), listed(None)) == (["4"], ["4", "3", "0"])


WRITER = """
import sys, jiyi
from jiyi.testing import HashEmbedder
from test_langgraph_saver import at, chat, say
from jiyi.integrations.langgraph import JiyiStore
from jiyi.integrations.langgraph_saver import JiyiSaver
file, thread, turns = sys.argv[1:]
with jiyi.open(file, user_id="ana", embedder=HashEmbedder(), background=False) as memory:
    graph = chat(JiyiSaver(memory))
    for turn in range(int(turns)):
        say(graph, f"{thread} {turn} " + "words " * 200, at(thread))
        print(turn, flush=True)
"""


def writing(file: Path, thread: str, turns: int) -> subprocess.Popen[bytes]:
    paths = [str(Path(__file__).parent), *sys.path]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-c", WRITER, str(file), thread, str(turns)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=env)


def test_a_killed_process_leaves_every_checkpoint_whole(open_memory, path):
    for after in (1, 4):
        process = writing(path, f"t{after}", 10_000)
        assert process.stdout is not None
        for _ in range(after):
            assert process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    with open_memory() as memory:
        graph = chat(JiyiSaver(memory))
        for after in (1, 4):
            states = [len(one.values.get("messages", ())) for one in graph.get_state_history(at(f"t{after}"))]
            assert states == sorted(states, reverse=True)
            assert states[0] >= 2 * after
            assert say(graph, "go on", at(f"t{after}"))[-1].startswith("answer")


@pytest.mark.slow
def test_eight_processes_lose_nothing(open_memory, path):
    threads = [f"t{i // 2}" for i in range(8)]  # two write to the same
    processes = [writing(path, thread, 5) for thread in threads]
    ended = [(process.communicate(timeout=120), process.returncode) for process in processes]
    assert [code for _, code in ended] == [0] * 8
    with open_memory() as memory:
        found = Counter(one.config["configurable"]["thread_id"] for one in JiyiSaver(memory).list(None))
    assert found == dict.fromkeys(threads, 2 * 5 * 3)


@pytest.mark.slow
def test_a_graph_on_postgres_as_in_memory(open_memory, postgres_url):
    with open_memory(postgres_url) as memory:
        saver = JiyiSaver(memory)
        assert travelled(saver) == travelled(InMemorySaver())
        saver.prune(["t"], strategy="delete")
        for n in range(20):
            said = say(chat(saver), f"{n} {'words ' * 50}", at("t2"))
        saver.prune(["t2"])
        assert kinds(memory)["checkpoints"] == 1
        assert [m.content for m in chat(JiyiSaver(memory)).get_state(at("t2")).values["messages"]] == said
        memory.forget(session_id="t2")
        assert kinds(memory) == {}
