from collections.abc import Sequence

import pytest
from conversations import assistant, calls, conversations, partners, result, system, user
from hypothesis import given, settings

from jiyi.short_term import Atom, atoms, turns

NO_CALL = "tool result without its call"


def groups(messages):
    return [atom.indices for atom in atoms(messages)]


def faults(messages):
    return {atom.indices: atom.broken for atom in atoms(messages) if atom.broken}


def test_a_call_and_its_results_in_any_order_are_one_atom():
    found = atoms([user(), calls("a"), result("a"), assistant()])
    assert found == [Atom(indices=(0,)), Atom(indices=(1, 2)), Atom(indices=(3,))]
    talk = [calls("a", "b", "c"), result("c"), assistant(), result("a"), user(), system(), result("b")]
    assert groups(talk) == [(0, 1, 3, 6), (2,), (4,), (5,)]
    assert faults(talk) == {}


def test_each_call_has_a_result_of_its_own_and_a_reused_id_answers_the_most_recent_open_one():
    talk = [calls("call_1"), result("call_1"), user(), calls("call_1"), result("call_1")]
    assert groups(talk) == [(0, 1), (2,), (3, 4)]
    left_open = [calls("call_1"), user(), calls("call_1"), result("call_1")]
    assert faults(left_open) == {(0,): "tool call without its result"}
    assert faults([calls("a", "a"), result("a"), result("a")]) == {}
    assert faults([calls("a", "a"), result("a")]) == {(0, 1): "tool call with 1 of 2 results"}
    talk = [calls("a"), result("a"), result("a")]
    assert groups(talk) == [(0, 1), (2,)]
    assert faults(talk) == {(2,): NO_CALL}


@pytest.mark.parametrize(
    ("talk", "expected"),
    [
        ([result("a")], {(0,): NO_CALL}),
        ([result(None)], {(0,): NO_CALL}),
        ([result("a"), calls("a")], {(0,): NO_CALL, (1,): "tool call without its result"}),
        ([calls("a", "b")], {(0,): "tool call without its result"}),
        ([calls("a", "b"), user(), result("b")], {(0, 2): "tool call with 1 of 2 results"}),
    ],
)
def test_broken_atoms_say_why(talk, expected):
    assert faults(talk) == expected


def test_turns_begin_with_user_messages():
    talk = [system(), assistant(), user(), calls("a"), result("a"), system(), assistant(), user()]
    assert turns(talk) == [(1,), (2, 3, 4, 6), (7,)]
    assert turns([]) == []
    assert turns([system()]) == []


def test_turns_that_tool_calls_span_are_joined_once_with_those_between():
    talk = [user(), user(), calls("a"), user(), assistant(), user(), result("a"), user()]
    assert turns(talk) == [(0,), (1, 2, 3, 4, 5, 6), (7,)]
    talk = [user(), calls("a"), user(), calls("b"), result("a"), user(), result("b"), user()]
    assert turns(talk) == [(0, 1, 2, 3, 4, 5, 6), (7,)]


@settings(deadline=None)
@given(conversations())
def test_atoms_agree_with_the_slow_search(talk):
    found = {i: atom for atom in atoms(talk) for i in atom.indices}
    assert sorted(found) == list(range(len(talk)))
    assert groups(talk) == sorted(groups(talk))
    for place, group in partners(talk).items():
        atom = found[place]
        assert (atom.broken is None) == (group is not None)
        assert group is None or set(atom.indices) == group


@settings(deadline=None)
@given(conversations())
def test_taking_out_an_atom_leaves_the_others_as_they_were(talk):
    for gone in atoms(talk):
        rest = [i for i in range(len(talk)) if i not in gone.indices]
        after = [
            Atom(indices=tuple(rest[i] for i in atom.indices), broken=atom.broken)
            for atom in atoms([talk[i] for i in rest])
        ]
        assert after == [atom for atom in atoms(talk) if atom != gone]


@pytest.mark.slow
@settings(deadline=None)
@given(conversations())
def test_every_message_but_system_is_in_one_turn_and_no_atom_in_two(talk):
    rounds = turns(talk)
    assert [i for places in rounds for i in places] == [i for i, m in enumerate(talk) if m.role != "system"]
    assert all(talk[places[0]].role == "user" for places in rounds[1:])
    turn_of = {i: n for n, places in enumerate(rounds) for i in places}
    for atom in atoms(talk):
        assert len({turn_of.get(i) for i in atom.indices}) == 1
    for number, places in enumerate(rounds):  # a user message inside a turn has a span over it
        for i in places[1:]:
            if talk[i].role == "user":
                assert any(
                    turn_of.get(a.first) == number and a.first < i < a.indices[-1] for a in atoms(talk)
                )


class Watched(Sequence):
    """A sequence that counts how often it was looked at."""

    def __init__(self, items):
        self.items, self.looks = items, 0

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        self.looks += 1
        return self.items[index]


@pytest.mark.parametrize("group", [atoms, turns])
def test_grouping_is_linear(group):
    talk = Watched([user(), calls("a", "b"), result("b"), result("a"), calls("z")] * 2_000)
    group(talk)
    assert talk.looks <= 5 * len(talk)
