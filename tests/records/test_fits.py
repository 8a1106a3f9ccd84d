"""Values held against annotations, and what is said of those that do not fit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import pytest

from jiyi.errors import InputError
from jiyi.records import ForgetWeights, Message, Skill, Window
from jiyi.records.fits import misfit


def test_a_record_of_wrong_fields_is_refused():
    with pytest.raises(InputError, match="Skill: description must be str, not 5"):
        Skill(name="one", description=5, folder=None)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
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
    assert misfit(value, hint, "it") == ""


@pytest.mark.parametrize(
    ("value", "hint", "said"),
    [
        (True, int, "it must be int, not True (bool)"),
        (b"a", str | None, "it must be str | None, not b'a' (bytes)"),
        ("ab", Sequence[str], "it must be Sequence[str], not 'ab' (str)"),
        (["a", 1], Sequence[str] | str, "it[1] must be str, not 1 (int)"),
        ([], Literal["a"], "it must be Literal['a'], not [] (list)"),
        (1, Callable[[], None] | None, "it must be Callable[[], None] | None, not 1 (int)"),
        ({1: 2}, Mapping[str, Any], "it has the key 1; keys must be text"),
    ],
)
def test_what_does_not_fit(value, hint, said):
    assert misfit(value, hint, "it") == said


def test_records_say_in_a_typed_error_what_python_itself_cannot_print():
    nested: dict[str, object] = {}
    for _ in range(3_000):
        nested = {"in": nested}
    for value in (10**5_000, nested):
        with pytest.raises(InputError):
            Message(role="user", content="x", id=value)
        with pytest.raises(InputError):
            ForgetWeights(success=value)
