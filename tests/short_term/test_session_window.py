"""What a window costs to keep, and that it is what the policy makes of the whole session."""

import itertools
from dataclasses import replace

import pytest
from conversations import assistant, calls, conversations, must_stay, result, system, unanswerable, user
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from session_tools import SCOPE, CountingStore, save, talk_of, whole

from jiyi.records import new_id
from jiyi.short_term import ShortTermMemory, SlidingWindow, sessions


def cost_of_a_turn(store, already):
    """Return store questions and rows for one saved and read turn in a session of this length."""
    scope = SCOPE.in_session(f"long-{already}")
    save(store, system("rules"), *talk_of(already // 2), scope=scope)
    counting = CountingStore(store)
    memory = ShortTermMemory(counting)
    memory.messages(scope)
    first = (counting.finds, counting.rows)
    counting.reset()
    save(store, user("q"), calls("c"), scope=scope)
    memory.messages(scope)
    save(store, result("c"), assistant("a"), scope=scope)
    kept = memory.messages(scope)
    held = sum(len(w.messages) for s in memory._sessions.values() for w in s.windows.values())
    memory.close()
    assert len(kept) == held == 41
    return first, (counting.finds, counting.rows)


def test_reads_cost_the_same_in_a_long_session(store):
    loaded, read = cost_of_a_turn(store, 200)
    assert cost_of_a_turn(store, 4_000) == (loaded, read)
    assert read == (2, 4)
    assert loaded[0] <= 4


def test_an_orphan_is_looked_for_once_and_not_far(store):
    save(store, *talk_of(2_000))
    counting = CountingStore(store)
    memory = ShortTermMemory(counting)
    memory.messages(SCOPE)
    save(store, result("nobody asked"))
    counting.reset()
    memory.messages(SCOPE)
    assert counting.rows < 2_000
    counting.reset()
    save(store, user())
    memory.messages(SCOPE)
    assert (counting.finds, counting.rows) == (1, 1)
    memory.close()


def live(store, talk, max_turns, page, steps, look):
    """Save a conversation in pieces, disturb the memory between them, and look at each window read."""
    scope, memory = SCOPE.in_session(new_id()), ShortTermMemory(store, max_turns=max_turns)
    rest = [replace(m, id=f"{scope.session_id}:{m.id}") for m in talk]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "_initial_page_size", lambda policy: page)
        for size, then in itertools.cycle(steps):
            if not rest:
                break
            save(store, *rest[:size], scope=scope)
            rest = rest[size:]
            if then == "drop":
                memory.drop(scope)
            if then == "read" or not rest:
                look(memory.window(scope), whole(store, scope))
    memory.close()


steps_of_life = st.lists(st.tuples(st.integers(1, 8), st.sampled_from(("read", "drop", "rest"))), min_size=1)
lives = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)


@pytest.mark.slow
@lives
@given(conversations(max_size=60, late=False), st.integers(1, 4), st.integers(1, 12), steps_of_life)
def test_the_window_is_what_the_policy_makes_of_the_whole_session(store, talk, max_turns, page, steps):
    policy = SlidingWindow(max_turns, 2 * max_turns)

    def look(window, session):
        assert window.kept == policy(session).kept

    live(store, talk, max_turns, page, steps, look)


@pytest.mark.slow
@lives
@given(conversations(max_size=60), st.integers(1, 4), st.integers(1, 12), steps_of_life)
def test_windows_stay_sound_however_late_results_come(store, talk, max_turns, page, steps):
    def look(window, session):
        assert unanswerable(window.kept) is None
        seqs = [m.seq for m in window.kept]
        assert seqs == sorted(set(seqs))
        held = {m.seq for m in must_stay(session)}
        assert held <= set(seqs)
        counted = [m for m in window.kept if m.role in ("user", "assistant") and m.seq not in held]
        assert len(counted) <= 2 * max_turns

    live(store, talk, max_turns, page, steps, look)
