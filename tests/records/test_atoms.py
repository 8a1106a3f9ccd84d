"""Which messages cannot be parted; the policies' tests look at every other side of it."""

from jiyi.records import Message, ToolCall
from jiyi.records.atoms import atoms


def call(*ids):
    return Message(role="assistant", tool_calls=tuple(ToolCall(id=i, name="t", arguments="") for i in ids))


def answer(id_):
    return Message(role="tool", tool_call_id=id_, content="ok")


def test_a_call_stays_with_its_results_and_its_id_used_again_is_the_latest_open_call():
    talk = [call("a", "b"), Message(role="user", content="hi"), answer("b"), answer("a")]
    assert [(atom.indices, atom.broken) for atom in atoms(talk)] == [((0, 2, 3), None), ((1,), None)]
    talk = [call("a"), answer("a"), call("a"), answer("a"), answer("a")]
    assert [atom.indices for atom in atoms(talk)] == [(0, 1), (2, 3), (4,)]


def test_what_lacks_a_part_is_broken():
    assert [atom.broken for atom in atoms([answer("x"), call("a", "b"), answer("a"), call("c")])] == [
        "tool result without its call",
        "tool call with 1 of 2 results",
        "tool call without its result",
    ]
