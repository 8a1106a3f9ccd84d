"""An argument of a wrong type is `InputError`, in words, and nothing was written."""

import json
from functools import partial
from typing import Any

import pytest
from refusing import raises, refused
from tables import read_tables

import jiyi
from jiyi.client.memory import RemoteMemory
from jiyi.errors import InputError, JiyiError
from jiyi.testing import HashEmbedder


def nested(levels=500):
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"in": value}
    return value


def call(verb, arguments, named, memory):
    getattr(memory, verb)(*json.loads(arguments), **json.loads(named))


CIRCLE: dict[str, Any] = {}
CIRCLE["in"] = CIRCLE
COLUMNS = "what, verb, arguments, those by name, what is said"

WRONG = {
    **{what: (partial(call, *told), said) for what, *told, said in read_tables(__file__)[COLUMNS]},
    "context in a circle": (lambda m: m.start_task("s", "r", context=CIRCLE), "Circular|nested deeper"),
    "args of text": (lambda m: m.add_step(m.tasks()[0].id, "d", args="x"), "args must be a valid dictionary"),
    "a path of half a pair": (lambda m: m.export("\ud800"), "half of a surrogate pair"),
    "a class": (lambda m: m.build_context("s", policy=jiyi.SlidingWindow), "policy must be callable"),
    "ids in a circle": (lambda m: m.forget(ids=[CIRCLE]), r"ids\[0\] must be a valid string"),
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


def test_a_skill_file_is_named_by_text(open_memory, write_skill):
    memory = open_memory(skills=[write_skill("one").parent])
    refused(JiyiError, r"name of a file|resource", memory.open_skill, "s", "one", resource=[])


def test_errors_of_what_the_caller_passes_in_stay_as_they_are(memory):
    memory.save_message("s", role="user", content="x")

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    raises(ZeroDivisionError, memory.flush, fails)
    refused(TypeError, "colour", memory.search, "x", colour="red")


MODELS = {"embedder": "embed", "reranker": "score", "llm": "complete"}


@pytest.mark.parametrize("part", ["clock", "url", *MODELS])
@pytest.mark.parametrize("given", [5, {"a": 1}, HashEmbedder])
def test_a_part_that_is_none_is_refused_when_a_memory_is_opened(tmp_path, part, given):
    said = f"open: {part} must be|not int|not dict|type"
    if part in MODELS:
        said = rf"open: {part} must be a name or an object with {MODELS[part]}\(\), not"
    options = {"url": tmp_path / "a.db", "user_id": "ana", "background": False} | {part: given}
    refused(JiyiError, said, jiyi.open, **options)
    assert not list(tmp_path.iterdir())
