"""Items through the verbs: put, get, list, expire, forget, search."""

from datetime import timedelta

import pytest

from jiyi.errors import BadQuery, Changed, InputError

ANA = ("users", "ana")


def paths(items):
    return [item.path for item in items]


def test_a_value_is_kept_and_its_former_ones_stay_in_its_history(memory, clock):
    first = memory.put_item(ANA, "prefs", {"theme": "dark", "size": {"w": 3}})
    assert (first.version, first.text) == (1, "dark")
    between = clock()
    clock.forward(minutes=1)
    second = memory.put_item(ANA, "prefs", {"theme": "light"})
    assert (second.version, second.id, second.created_at) == (2, first.id, first.created_at)
    assert memory.get_item(ANA, "prefs") == second
    assert memory.get_item(ANA, "prefs", as_of=between) == first
    assert memory.get_item(ANA, "prefs", as_of=between - timedelta(seconds=1)) is None
    assert memory.item_history(ANA, "prefs") == [first]
    for n in range(12):
        memory.put_item(ANA, "prefs", {"n": n})
    assert [old.value for old in memory.item_history(ANA, "prefs")] == [{"n": n} for n in range(10, 0, -1)]
