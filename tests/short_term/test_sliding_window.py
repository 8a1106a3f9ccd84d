from conversations import assistant, calls, check, conversations, must_stay, result, system, user
from hypothesis import given, settings
from hypothesis import strategies as st
from session_tools import talk_of

from jiyi.short_term import SlidingWindow, turns


def reasons(decision):
    return [d.reason for d in decision.dropped]


def test_keeps_the_last_turns():
    talk = [system(), *talk_of(5)]
    decision = SlidingWindow(k=2)(talk, None)
    assert decision.kept == (talk[0], *talk[-4:])
    assert reasons(decision) == ["older than the last 2 turns"] * 6
    assert SlidingWindow()([]).kept == ()


def test_max_messages_drops_whole_turns_first():
    talk = [*talk_of(2), user(), calls("a"), result("a"), assistant()]
    decision = SlidingWindow(k=10, max_messages=4)(talk)
    assert decision.kept == tuple(talk[4:])
    assert reasons(decision) == ["older than the last 4 user and assistant messages"] * 4


def test_a_long_turn_keeps_its_opening_and_without_one_its_newest():
    talk = [
        *talk_of(1),
        user("go"),
        *[m for n in range(5) for m in (calls("c"), result("c", str(n)))],
        assistant(),
    ]
    assert SlidingWindow(k=3, max_messages=3)(talk).kept == (talk[2], *talk[-3:])
    assert SlidingWindow(k=3, max_messages=1)(talk).kept == (talk[2],)
    talk = [assistant(str(n)) for n in range(9)]
    assert SlidingWindow(max_messages=2)(talk).kept == tuple(talk[-2:])


def test_a_pinned_message_brings_its_atom_and_counts_for_no_limit_but_broken_ones_leave():
    talk = [user(), calls("a", "b"), result("a"), result("b", pinned=True), *talk_of(3)]
    assert SlidingWindow(k=1, max_messages=2)(talk).kept == (*talk[1:4], *talk[-2:])
    talk = [user(), calls("a", "b", pinned=True), result("b"), result("z", pinned=True), assistant()]
    decision = SlidingWindow()(talk)
    assert decision.kept == (talk[0], talk[4])
    assert reasons(decision) == ["tool call with 1 of 2 results"] * 2 + ["tool result without its call"]


def test_turns_part_again_when_the_call_that_joined_them_leaves():
    talk = [user("1"), calls("a"), user("2"), result("a"), assistant(), user("3"), assistant()]
    assert SlidingWindow(k=1)(talk[:5]).kept == tuple(talk[:5])
    assert SlidingWindow(k=1, max_messages=2)(talk[:5]).kept == (talk[2], talk[4])
    assert SlidingWindow(k=2, max_messages=3)(talk[:5]).kept == (talk[0], talk[2], talk[4])
    assert SlidingWindow(k=1, max_messages=2)(talk).kept == tuple(talk[5:])


@settings(deadline=None)
@given(conversations(), st.integers(1, 6), st.none() | st.integers(1, 8))
def test_holds_its_promises_for_any_conversation(talk, k, most):
    window = SlidingWindow(k, most)
    decision = window(talk, None)
    check(talk, decision)
    assert window(talk, 5) == decision
    again = window(decision.kept)
    assert (again.kept, again.dropped) == (decision.kept, ())
    held = {m.id for m in must_stay(talk)}
    free = [m for m in decision.kept if m.id not in held]
    if most is not None:
        assert sum(m.role in ("user", "assistant") for m in free) <= most
    assert sum(any(decision.kept[i].id not in held for i in places) for places in turns(decision.kept)) <= k


@settings(deadline=None)
@given(conversations(pins=False), st.integers(1, 4))
def test_drops_no_more_than_it_must(talk, k):
    decision = SlidingWindow(k)(talk)
    broken = {d.message.id for d in decision.dropped if "tool" in d.reason}
    sound = [m for m in talk if m.id not in broken]
    expected = {i for places in turns(sound)[-k:] for i in places}
    expected |= {i for i, m in enumerate(sound) if m.role == "system"}
    assert decision.kept == tuple(sound[i] for i in sorted(expected))
