"""Values held against annotations, and what is said of those that do not fit."""

from collections.abc import Callable, Mapping, Sequence
from inspect import isfunction
from types import MappingProxyType
from typing import Any, Literal, get_type_hints

import pytest
from refusing import raises

from jiyi.errors import InputError
from jiyi.manager import MemoryManager
from jiyi.records import ForgetWeights, Message, Scope, Skill, Window
from jiyi.records.checks import explain_mismatch


def test_records_of_wrong_or_unprintable_fields_are_refused_in_a_typed_error():
    with pytest.raises(InputError, match="Skill: description must be a valid string, not 5"):
        Skill(name="one", description=5, folder=None)
    nested: dict[str, object] = {}
    for _ in range(3_000):
        nested = {"in": nested}
    for value in (10**5_000, nested):
        raises(InputError, Message, role="user", content="x", id=value)
        raises(InputError, ForgetWeights, success=value)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (MappingProxyType({"a": 1}), Mapping[str, Any] | None),
        (Message(role="user", content="x"), Message | Mapping[str, Any]),
        (Scope(user_id="ana"), Scope),
        (None, str | None),
        (1, float),
        ("a", Literal["a", "b"]),
        (("a", "b"), Sequence[str] | str),
        ({"a": [1, None]}, Mapping[str, Any]),
        (len, Callable[[Any], int] | None),
        ([{}], Sequence[Mapping[str, Any] | Window]),
    ],
)
def test_what_fits(value, hint):
    assert explain_mismatch(value, hint, "it") == ""


@pytest.mark.parametrize(
    ("value", "hint", "said"),
    [
        (True, int, "it must be a valid integer, not True (bool)"),
        (b"a", str | None, "it must be a valid string, not b'a' (bytes)"),
        ("ab", Sequence[str], "it must be a list, not 'ab' (str)"),
        (["a", 1], Sequence[str] | str, "it[1] must be a valid string, not 1 (int)"),
        (5, Sequence[str] | str, "it must be a list or a valid string, not 5 (int)"),
        (10**30, int, "it must be a number of at most 64 bits, not 1000000000000000000000000000000"),
        ([], Literal["a"], "it must be 'a', not [] (list)"),
        (1, Callable[[], None] | None, "it must be callable, not 1 (int)"),
        ({1: 2}, Mapping[str, Any], "it[1] must be a valid string, not 1 (int)"),
        ([{"a": {1}}], Sequence[Mapping[str, Any]], "it.a is set, which is no JSON"),
    ],
)
def test_what_does_not_fit(value, hint, said):
    assert said in explain_mismatch(value, hint, "it")


def test_every_argument_of_a_verb_can_be_held_against_its_annotation():
    for name in dir(MemoryManager):
        if name.startswith("_") or not isfunction(verb := getattr(MemoryManager, name)):
            continue
        for argument, hint in get_type_hints(verb).items():
            if argument != "return" and hint is not Any:
                assert "must be" in explain_mismatch(object(), hint, argument), (name, argument)
