"""An argument of a wrong type is `InputError`, in words, and nothing was written."""

from typing import Any

import pytest

import jiyi
from jiyi.client.memory import RemoteMemory
from jiyi.errors import InputError, JiyiError


def nested(levels=500):
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"in": value}
    return value


CIRCLE: dict[str, Any] = {}
CIRCLE["in"] = CIRCLE

WRONG = {
    "a window of text": (
        lambda m: m.build_context("s", recalled="x"),
        "recalled must be an instance of Window",
    ),
    "a tool of text": (lambda m: m.build_context("s", tools=["x"]), r"tools\[0\] must be a valid dictionary"),
    "context of text": (lambda m: m.start_task("s", "r", context="x"), "context must be a valid dictionary"),
    "context in a circle": (lambda m: m.start_task("s", "r", context=CIRCLE), "Circular|nested deeper"),
    "args of text": (lambda m: m.add_step(m.tasks()[0].id, "d", args="x"), "args must be a valid dictionary"),
    "tags of a number": (lambda m: m.start_task("s", "r", tags=5), "tags must be an instance of Sequence"),
    "a path of half a pair": (lambda m: m.export("\ud800"), "half of a surrogate pair"),
    "nested ids": (lambda m: m.forget(ids=[["x"]]), r"ids\[0\] must be a valid string"),
    "ids in a circle": (lambda m: m.forget(ids=[CIRCLE]), r"ids\[0\] must be a valid string"),
    "progress that is a number": (lambda m: m.reembed(progress=1), "progress must be callable"),
    "progress by place": (lambda m: m.flush(1), "progress must be callable"),
    "messages of a number": (lambda m: m.save_messages("s", 5), "messages must be iterable"),
    "a huge number": (lambda m: m.search("x", limit=10**5000), "limit must be a number of at most 64 bits"),
}


@pytest.mark.parametrize(("do", "said"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said(memory, do, said):
    memory.start_task("s", "what is there")
    before = memory.stats()
    remote = isinstance(memory, RemoteMemory)  # its server says the same in pydantic's words
    with pytest.raises(InputError, match=None if remote else said) as caught:
        do(memory)
    assert len(str(caught.value)) < 300
    assert memory.stats() == before


def test_a_skill_file_is_named_by_text(open_memory, tmp_path):
    (tmp_path / "skills" / "one").mkdir(parents=True)
    (tmp_path / "skills" / "one" / "SKILL.md").write_text("---\nname: one\ndescription: d\n---\nbody")
    memory = open_memory(skills=[tmp_path / "skills"])
    with pytest.raises(JiyiError, match=r"name of a file|resource"):
        memory.open_skill("s", "one", resource=[])


def test_errors_of_what_the_caller_passes_in_stay_as_they_are(memory):
    memory.save_message("s", role="user", content="x")

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        memory.flush(fails)
    with pytest.raises(TypeError, match="colour"):
        memory.search("x", colour="red")


@pytest.mark.parametrize("part", ["embedder", "clock", "url"])
def test_a_part_that_is_none_is_refused_when_a_memory_is_opened(tmp_path, part):
    given = {"url": tmp_path / "a.db", "user_id": "ana", "background": False} | {part: {"a": 1}}
    with pytest.raises(JiyiError, match=r"must be|not dict"):
        jiyi.open(**given).save_message("s", role="user", content="x")
