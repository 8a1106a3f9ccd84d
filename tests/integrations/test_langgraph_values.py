"""Values packed into rows come back equal, share what is equal, and grow by what is new."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jiyi.integrations.langgraph_values import Packer, Row, RowCache, collect_refs, find_refs, unpack


class Serde:
    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return "json", json.dumps(obj).encode()

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return json.loads(data[1])


class Store:
    """Rows as a database keeps them: as JSON."""

    def __init__(self) -> None:
        self.rows: dict[str, str] = {}

    def put(self, value: Any, known: Iterable[str]) -> tuple[Any, Packer]:
        packer = Packer(Serde(), known)
        packed = json.loads(json.dumps(packer.pack(value)))
        assert not self.rows.keys() & packer.new.keys()
        self.rows |= {ref: json.dumps(row) for ref, row in packer.new.items()}
        return packed, packer

    def read(self, refs: Iterable[str]) -> Mapping[str, Row]:
        return {ref: json.loads(self.rows[ref]) for ref in refs}

    def refs(self) -> dict[str, list[str]]:
        return {ref: str(json.loads(row).get("refs", "")).split() for ref, row in self.rows.items()}


texts = st.text(max_size=300) | st.integers(0, 9).map(lambda n: f"{n}字 " * 200)
leaves = texts | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(max_size=9), inner, max_size=9),
)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.lists(values, max_size=4), min_size=1, max_size=6))
def test_values_come_back_equal(steps):
    store, known = Store(), set[str]()
    for step in steps:
        for value in step:
            packed, packer = store.put(value, known)
            known |= packer.refs
            assert unpack([packed], Serde(), store.read) == [value]
            assert find_refs([packed], store.read) == packer.refs
            assert collect_refs([packed], store.refs()) >= packer.refs
            again, second = store.put(value, known)
            assert (again, second.new, second.refs) == (packed, {}, packer.refs)


def test_what_grows_at_its_end_adds_what_is_new():
    store, known, talk = Store(), set[str](), list[str]()
    for turn in range(600):
        talk.append(f"{turn} {'words ' * 50}")
        packed, packer = store.put(talk, known)
        known = packer.refs
        assert len(packer.new) <= 4  # the element, and one of each level at most
        assert len(json.dumps(packed)) < 2_000
    assert len(store.rows) < 600 * 1.1
    assert unpack([packed], Serde(), store.read) == [talk]


def test_a_value_longer_than_a_row_is_cut():
    store = Store()
    value = {"a": "".join(chr(33 + n * n % 90) + str(n) for n in range(400_000)), "b": [1]}
    packed, packer = store.put(value, ())
    assert max(map(len, store.rows.values())) < 600_000
    assert unpack([packed], Serde(), store.read) == [value]
    assert collect_refs([packed], store.refs()) == set(store.rows)
    assert packer.new.keys() == set(store.rows)


def test_no_more_rows_are_held_than_may_be():
    store = Store()
    asked = list[str]()

    def read(refs: Iterable[str]) -> Mapping[str, Row]:
        asked.extend(refs)
        return store.read(refs)

    refs = sorted(store.put([f"{n} {'words ' * 50}" for n in range(100)], ())[1].refs)
    rows = RowCache(5_000)
    assert rows.get(refs, read).keys() == set(refs)
    rows.get(refs[:1], read)
    few = len(asked)
    rows.get(refs[:1], read)
    assert len(asked) == few
    rows.get(refs, read)
    assert len(asked) > few + 50
