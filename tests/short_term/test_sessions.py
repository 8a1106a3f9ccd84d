import gc
import threading
from datetime import timedelta
from functools import partial

import pytest
from at_once import at_once, wait_until
from conversations import assistant, calls, result, system, user
from refusing import refused
from session_tools import SCOPE, CountingStore, save, sweepers, talk_of, texts
from tables import each

from jiyi.errors import BadScope, Closed, SettingsError
from jiyi.records import Query, Scope
from jiyi.short_term import ShortTermMemory


@pytest.fixture
def memory(store, clock):
    memory = ShortTermMemory(store, max_turns=2, clock=clock)
    yield memory
    memory.close()


def test_the_last_turns_come_from_the_store(store, memory):
    save(store, system("rules"), *talk_of(150), user("last", pinned=True))
    assert texts(memory.messages(SCOPE)) == ["rules", "问题 149", "answer 149", "last"]


def test_tool_messages_do_not_count_but_long_turns_are_capped(store, memory):
    steps = [m for n in range(300) for m in (calls(f"c{n}"), result(f"c{n}", f"r{n}"))]
    save(store, *talk_of(3), user("go"), *steps)
    expected = ["go", "", "r297", "", "r298", "", "r299"]
    assert texts(memory.messages(SCOPE)) == expected
    save(store, calls("z"))
    assert texts(memory.messages(SCOPE)) == expected
    save(store, result("z", "done"))
    assert texts(memory.messages(SCOPE)) == [*expected[:1], *expected[3:], "", "done"]
    memory.drop(SCOPE)
    assert texts(memory.messages(SCOPE)) == [*expected[:1], *expected[3:], "", "done"]


def test_a_call_in_work_is_left_out_and_said_so_until_its_result_is_saved(store, memory):
    save(store, user("go"), calls("a", "b"), result("b", "2"))
    assert texts(memory.messages(SCOPE)) == ["go"]
    left = memory.window(SCOPE).dropped
    assert [d.message.role for d in left] == ["assistant", "tool"]
    assert {d.reason for d in left} == {"tool call with 1 of 2 results"}
    save(store, result("a", "1"))
    assert texts(memory.messages(SCOPE)) == ["go", "", "2", "1"]
    assert memory.window(SCOPE).dropped == ()


def test_a_late_result_joins_turns_and_brings_older_ones_back(store, memory):
    save(store, *talk_of(200), user("x"), calls("a"), user("y"), user("z"))
    assert texts(memory.messages(SCOPE)) == ["y", "z"]
    save(store, result("a", "late"))
    assert texts(memory.messages(SCOPE)) == ["x", "", "y", "z", "late"]


def test_pinned_tool_messages_come_with_their_atom_from_far_back(store, memory):
    old = [calls("call_1", "b"), result("call_1", "one"), user("between"), result("b", "two", pinned=True)]
    rest = [m for _ in range(100) for m in (user(), calls("call_1"), result("call_1"))]
    save(store, calls("call_1", pinned=True), user(), *old, *rest, user("now"))
    expected = ["", "one", "two", "hi", "", "ok", "now"]
    assert texts(memory.messages(SCOPE)) == expected
    save(store, assistant("yes"))
    assert texts(memory.messages(SCOPE)) == [*expected, "yes"]


def test_users_sessions_and_agents_are_apart(store, memory):
    scopes = [
        Scope(user_id="ana", agent_id="x", session_id="main"),
        Scope(user_id="ana", agent_id="y", session_id="main"),
        Scope(user_id="ben", agent_id="x", session_id="main"),
        Scope(user_id="ana", agent_id="x", session_id="other"),
    ]
    for scope in scopes:
        assert memory.messages(scope) == []
    everyone = Scope(user_id="ana", session_id="main")
    memory.messages(everyone)
    for number, scope in enumerate(scopes):
        save(store, user(str(number)), scope=scope)
    for number, scope in enumerate(scopes):
        assert texts(memory.messages(scope)) == [str(number)]
    assert texts(memory.messages(everyone)) == ["0", "1"]


def test_a_scope_without_a_session_is_refused(memory):
    for act in (memory.messages, memory.window):
        refused(BadScope, "session_id", act, Scope(user_id="ana"))


def test_drop_makes_the_next_read_start_afresh(store, memory):
    saved = save(store, user("a"), user("secret"))
    memory.messages(SCOPE)
    memory.messages(other := Scope(user_id="ana", agent_id="x", session_id="s-1"))
    store.delete(Query(scope=SCOPE, kinds=("message",), ids=(saved[1].id,)))
    memory.drop(other)
    assert texts(memory.messages(SCOPE)) == ["a"]
    store.delete(Query(scope=SCOPE, kinds=("message",)))
    memory.drop(Scope(user_id="ben"))
    assert texts(memory.messages(SCOPE)) == ["a"]
    memory.drop(Scope(user_id="ana"))
    assert memory.messages(SCOPE) == []


def test_a_read_that_began_before_a_drop_does_not_undo_it(store, clock):
    saved = save(store, user("secret"))

    class Interrupted(CountingStore):
        def find(self, query):
            rows = super().find(query)
            if self.finds == 1:
                store.delete(Query(scope=SCOPE, kinds=("message",), ids=(saved[0].id,)))
                memory.drop(SCOPE)
            return rows

    memory = ShortTermMemory(Interrupted(store), clock=clock)
    memory.messages(SCOPE)
    assert memory.messages(SCOPE) == []
    memory.close()


def test_idle_sessions_are_swept_and_resumed_and_reads_keep_them_alive(store, memory, clock):
    save(store, *talk_of(2))
    before = memory.messages(SCOPE)
    clock.forward(minutes=30)
    assert memory.sweep() == 0
    clock.forward(seconds=1)
    assert memory.sweep() == 1
    assert memory.sweep() == 0
    assert memory.messages(SCOPE) == before
    for _ in range(4):
        memory.messages(SCOPE)
        clock.forward(minutes=20)
    assert memory.sweep() == 0
    memory.messages(SCOPE)
    clock.forward(minutes=31)
    memory.messages(Scope(user_id="ben", session_id="s-2"))
    assert memory.sweep() == 0


def test_of_very_many_sessions_those_longest_untouched_go(store, memory, clock):
    save(store, *talk_of(2))
    before = memory.messages(SCOPE)
    for number in range(1_200):
        memory.messages(Scope(user_id="ben", session_id=f"s-{number}"))
        if number < 600:
            assert memory.messages(SCOPE) == before
    clock.forward(minutes=31)
    assert memory.sweep() == 1_000
    assert memory.messages(SCOPE) == before


def test_the_background_sweep_needs_no_access(store, clock):
    memory = ShortTermMemory(store, clock=clock, sweep_every=timedelta(milliseconds=10))
    memory.messages(SCOPE)
    clock.forward(hours=1)
    wait_until(lambda: not memory._sessions)
    memory.close()


def test_the_sweeper_starts_with_the_first_session_and_ends_with_close(store):
    assert ShortTermMemory.__init__.__kwdefaults__["sweep_every"] == timedelta(minutes=1)
    before = len(sweepers())
    memory = ShortTermMemory(store, sweep_every=timedelta(days=999_999_999))
    assert len(sweepers()) == before
    memory.messages(SCOPE)
    memory.messages(Scope(user_id="ben", session_id="s-2"))
    assert len(sweepers()) == before + 1
    assert sweepers()[0].daemon
    memory.close()
    memory.close()
    assert len(sweepers()) == before
    refused(Closed, "closed", memory.messages, SCOPE)
    memory.drop(SCOPE)


def test_memories_nobody_closed_leave_no_threads(store):
    before = len(sweepers())
    for _ in range(20):
        ShortTermMemory(store).messages(SCOPE)
    gc.collect()
    wait_until(lambda: len(sweepers()) <= before)


@pytest.mark.parametrize(
    "bad",
    each(max_turns=[0, True, 2.5], ttl=[timedelta(0), timedelta(seconds=-1), 30], sweep_every=[timedelta(0)]),
)
def test_impossible_settings_are_refused(store, bad):
    refused(SettingsError, next(iter(bad)), ShortTermMemory, store, **bad)


@pytest.mark.slow
def test_many_threads_in_one_session_lose_and_double_nothing(store):
    memory = ShortTermMemory(store, max_turns=500, ttl=timedelta(microseconds=1))
    begin = threading.Barrier(9)

    def work(number):
        begin.wait()
        for turn in range(20):
            mine = save(store, user(f"{number}:{turn}"), assistant(f"{number}:{turn}!"))
            seen = [m.seq for m in memory.messages(SCOPE)]
            assert seen == sorted(set(seen))
            assert {m.seq for m in mine} <= set(seen)

    def disturb():
        begin.wait()
        for turn in range(100):
            memory.sweep()
            if turn % 10 == 0:
                memory.drop(SCOPE)

    at_once(lambda call: call(), [disturb, *(partial(work, number) for number in range(8))])
    assert [m.seq for m in memory.messages(SCOPE)] == list(range(8 * 20 * 2))
    memory.close()


def test_no_lock_is_held_while_the_store_is_read(store, clock):
    entered, go_on = threading.Event(), threading.Event()

    class Slow(CountingStore):
        def find(self, query):
            if query.scope == SCOPE:
                entered.set()
                assert go_on.wait(10)
            return super().find(query)

    memory = ShortTermMemory(Slow(store), clock=clock)
    save(store, user("a"))
    got = []
    reader = threading.Thread(target=lambda: got.append(texts(memory.messages(SCOPE))))
    reader.start()
    assert entered.wait(10)
    save(store, user("b"))
    memory.sweep()
    assert memory.messages(Scope(user_id="ben", session_id="s-2")) == []
    go_on.set()
    reader.join()
    assert got == [["a", "b"]]
    assert texts(memory.messages(SCOPE)) == ["a", "b"]
    memory.close()
