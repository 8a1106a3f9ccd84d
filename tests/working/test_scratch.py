"""The scratch pad: always a conversation a chat API takes, freed in the end, made again from a task."""

from refusing import refused

from jiyi.compression import Compressed
from jiyi.errors import InputError
from jiyi.records import Message, ToolCall
from jiyi.short_term import atoms
from jiyi.working import Scratch, describe_call

LS = ToolCall(id="c1", name="shell", arguments='{"cmd": "ls"}')
PS = ToolCall(id="c2", name="shell", arguments='{"cmd": "ps"}')


def first_ten(message: Message) -> Compressed:
    text = f"{message.text[:10]} [{message.id}]"
    return Compressed(text=text, sources=(message.id,), tokens_before=9, tokens=9, method="cut")


def test_thoughts_actions_and_observations_are_messages():
    scratch = Scratch()
    scratch.note("hm")
    scratch.act([LS, PS], "look")
    scratch.observe("c2", "processes", id="step-2")
    scratch.observe("c1", "files")
    scratch.note("go on")
    found = [message.to_openai() for message in scratch.messages]
    assert found == [
        {"role": "user", "content": "hm"},
        {"role": "assistant", "content": "look", "tool_calls": [LS.to_openai(), PS.to_openai()]},
        {"role": "tool", "content": "processes", "tool_call_id": "c2"},
        {"role": "tool", "content": "files", "tool_call_id": "c1"},
        {"role": "user", "content": "go on"},
    ]
    assert scratch.messages[2].id == "step-2"


def test_calls_are_shown_once_all_their_results_are_there():
    scratch = Scratch()
    scratch.note("hm")
    scratch.act([LS, PS])
    assert len(scratch.messages) == 1
    scratch.observe("c1", "a")
    assert len(scratch.messages) == 1
    scratch.observe("c2", "b")
    assert len(scratch.messages) == 4
    assert all(atom.broken is None for atom in atoms(scratch.messages))


def test_what_would_break_the_conversation_is_refused():
    scratch = Scratch()
    for bad in ([], [LS, LS]):
        refused(InputError, "at least one tool call, each with an id", scratch.act, bad)
    refused(InputError, "no call 'c1' waits", scratch.observe, "c1", "x")
    scratch.act([LS])
    for add in (lambda: scratch.note("x"), lambda: scratch.act([PS])):
        refused(InputError, "c1 have no result yet", add)
    scratch.observe("c1", "x")
    refused(InputError, "no call 'c1' waits", scratch.observe, "c1", "again")


def test_the_list_given_out_is_a_copy_and_clear_frees_all():
    scratch = Scratch("t-1")
    scratch.note("hm")
    scratch.messages.clear()
    assert len(scratch.messages) == 1
    scratch.act([LS])
    scratch.clear()
    assert (scratch.messages, scratch.task_id) == ([], "t-1")
    scratch.act([LS])


def test_long_observations_are_shown_shortened_and_name_where_the_whole_is():
    scratch = Scratch(shorten=first_ten)
    scratch.act([LS])
    seen = scratch.observe("c1", "0123456789abcdef", id="step-1")
    assert (seen.text, seen.id) == ("0123456789 [step-1]", "step-1")
    assert scratch.messages[-1] == seen


def test_it_can_be_made_again_from_a_task(memory):
    task = memory.start_task("s", "disk?")
    memory.add_step(task.id, "look, then mend", status="pending")
    thought = memory.add_step(task.id, "Look first.", tool_name="shell", args={"cmd": "df"})
    memory.update_step(thought.id, status="completed", result="full " * 10)
    silent = memory.add_step(
        task.id, describe_call("shell", {"命令": "ps"}), tool_name="shell", args={"命令": "ps"}
    )
    memory.update_step(silent.id, status="failed", result="no such command")
    cut = memory.add_step(task.id, "shell", tool_name="shell")
    stored = memory.current_task("s")
    assert stored is not None
    scratch = Scratch.from_task(stored, shorten=first_ten)
    assert scratch.task_id == task.id
    shown = scratch.messages
    assert [m.role for m in shown] == ["assistant", "tool"] * 3
    assert [m.content for m in shown[::2]] == ["Look first.", None, None]
    assert [m.tool_calls[0].arguments for m in shown[::2]] == ['{"cmd": "df"}', '{"命令": "ps"}', "{}"]
    assert [m.id for m in shown[1::2]] == [thought.id, silent.id, cut.id]
    assert shown[1].text.startswith("full full  [")
    assert shown[5].text.startswith("(interrupt")
    assert all(atom.broken is None for atom in atoms(shown))


def test_an_unfinished_step_says_so_in_the_language_of_the_task(memory):
    task = memory.start_task("s", "磁盘满了吗？")
    memory.add_step(task.id, "shell", tool_name="shell")
    stored = memory.current_task("s")
    assert stored is not None
    assert "没有结果" in Scratch.from_task(stored).messages[1].text


def test_calls_in_words_are_short():
    assert describe_call("shell", {}) == "shell"
    assert describe_call("shell", {"命令": "列"}) == 'shell {"命令": "列"}'
    assert len(describe_call("shell", {"cmd": "x" * 500})) == 200
