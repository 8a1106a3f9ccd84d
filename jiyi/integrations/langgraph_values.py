"""Values of a LangGraph thread as rows, each content once: lists and dicts by their parts.

A packed value is JSON, one of three forms:

- ``[type, data]`` or ``[type, data, "zlib"]``: a small value itself, serialized, in Base64;
- ``"ref"``: the row that holds it;
- ``{"list": levels}`` or ``{"dict": levels}``: its parts. The last level but fewer than 16 rows of parts are
  in ``levels[0]``; every 16 of them have a row of their own, of which fewer than 16 are in ``levels[1]``; and
  so on. What grows at its end adds its new parts, and one row in 16 besides.
"""

import json
import threading
import zlib
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import partial
from hashlib import blake2b
from secrets import token_urlsafe
from typing import Any, Protocol

__all__ = ["Packer", "Read", "Row", "Rows", "Serde", "decoded", "encoded", "refs_in", "refs_of", "unpacked"]

Row = dict[str, Any]
"""What a reference stands for: ``{"values": [...]}``, or ``{"refs": "..."}`` of 16 others.

Values that are too long for a row are cut as text: ``{"refs": "..."}`` of rows ``{"piece": "..."}``.
"""

Read = Callable[[Iterable[str]], Mapping[str, Row]]
"""Reads rows by their references."""

_MAX_INLINE_BYTES = 200  # bytes of a value that is kept where it is used: a row would take more
_MIN_PART_BYTES = 200  # bytes from which elements of a list fill a row
_MAX_ROW_LENGTH = 500_000  # characters of a row
_REFS_PER_ROW = 16  # references that become one
_MIN_COMPRESSED_BYTES = 100  # bytes from which compression is tried
_HASH_LENGTH = 20  # characters of a reference that say what it holds; the others, who wrote it


class Serde(Protocol):
    """What serializes values: LangGraph's ``SerializerProtocol``."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return a value's type and data."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value."""


@dataclass(eq=False, repr=False)
class Packer:
    """Packs the values of one change."""

    serde: Serde  # where equal values give different data, as with encryption, nothing is shared
    known: InitVar[Iterable[str]]  # rows that are stored and will stay
    refs: set[str] = field(default_factory=set, init=False)  # all rows that the packed values need
    new: dict[str, Row] = field(default_factory=dict, init=False)  # those that are not stored yet

    def __post_init__(self, known: Iterable[str]) -> None:
        self._known = {ref[:_HASH_LENGTH]: ref for ref in known}
        # A row is written once, under a name no other change uses: whoever deletes what nothing refers to
        # cannot take what is written meanwhile.
        self._writer = token_urlsafe(3)

    def pack(self, value: Any) -> Any:
        """Return a value packed."""
        numbers = type(value) is list and all(isinstance(one, int | float) for one in value)
        if type(value) in (list, dict) and value and not numbers:
            name = type(value).__name__
            elements = value if name == "list" else [{key: one} for key, one in value.items()]
            typed = [self.serde.dumps_typed(element) for element in elements]
            if sum(len(data) for _, data in typed) > _MAX_INLINE_BYTES:
                return {name: self._levels([self._row(part) for part in _parts(typed)])}
        whole = self.serde.dumps_typed(value)
        return encoded(whole) if len(whole[1]) <= _MAX_INLINE_BYTES else self._row([whole])

    def _levels(self, refs: list[str]) -> list[str]:
        levels = list[str]()
        while True:
            cut = len(refs) // _REFS_PER_ROW * _REFS_PER_ROW
            levels.append(" ".join(refs[cut:]))
            if not cut:
                return levels
            texts = [" ".join(refs[at : at + _REFS_PER_ROW]) for at in range(0, cut, _REFS_PER_ROW)]
            refs = [self._ref(text.encode(), partial(dict, refs=text)) for text in texts]

    def _row(self, part: Sequence[tuple[str, bytes]]) -> str:
        told = b"".join(b"%s %d %s" % (kind.encode(), len(data), data) for kind, data in part)
        return self._ref(told, lambda: self._filled([encoded(typed) for typed in part]))

    def _filled(self, values: list[list[str]]) -> Row:
        if sum(len(value[1]) for value in values) <= _MAX_ROW_LENGTH:
            return {"values": values}
        text = json.dumps(values)
        pieces = [{"piece": text[at : at + _MAX_ROW_LENGTH]} for at in range(0, len(text), _MAX_ROW_LENGTH)]
        refs = [self._ref(b"piece " + one["piece"].encode(), partial(dict, one)) for one in pieces]
        return {"refs": " ".join(refs)}

    def _ref(self, content: bytes, row: Callable[[], Row]) -> str:
        digest = b64encode(blake2b(content, digest_size=15).digest(), b"-_").decode()
        ref = self._known.get(digest)
        if ref is None:
            ref = self._known[digest] = digest + self._writer
            self.new[ref] = row()
        self.refs.add(ref)
        return ref


@dataclass(eq=False, repr=False)
class Rows:
    """Rows as they are read, the latest held on to: what a reference stands for never changes."""

    most: int = 50_000_000  # characters of the rows that are held

    def __post_init__(self) -> None:
        self._held: OrderedDict[str, Row] = OrderedDict()
        self._size = 0
        self._guard = threading.Lock()

    def of(self, refs: Iterable[str], read: Read) -> dict[str, Row]:
        """Return rows, those that are not held from ``read``."""
        asked = set(refs)
        with self._guard:
            found = {ref: self._held[ref] for ref in asked if ref in self._held}
            for ref in found:
                self._held.move_to_end(ref)
        if missing := asked - found.keys():
            new = read(missing)
            self.hold(new)
            found.update(new)
        return found

    def hold(self, rows: Mapping[str, Row]) -> None:
        """Hold on to rows."""
        with self._guard:
            for ref, row in rows.items():
                if ref not in self._held:
                    self._held[ref] = row
                    self._size += _length(row)
            while self._size > self.most:
                self._size -= _length(self._held.popitem(last=False)[1])


def unpacked(packed: Sequence[Any], serde: Serde, read: Read) -> list[Any]:
    """Return the values that these stand for."""
    leaves = [(list(_down(one, read)) or [[]])[-1] for one in packed]
    rows = read({ref for refs in leaves for ref in refs})
    return [
        _value(one, [rows[ref] for ref in refs], serde, read)
        for one, refs in zip(packed, leaves, strict=True)
    ]


def _down(packed: Any, read: Read) -> Iterator[list[str]]:
    """Give the references of each level of a packed value, those of its parts last."""
    refs = list[str]()
    for level in reversed(_levels_of(packed)):
        rows = read(refs) if refs else {}
        refs = [inner for ref in refs for inner in rows[ref]["refs"].split()] + level
        yield refs


def _value(packed: Any, rows: Sequence[Row], serde: Serde, read: Read) -> Any:
    if isinstance(packed, list):
        return serde.loads_typed(decoded(packed))
    values = [serde.loads_typed(decoded(one)) for row in rows for one in _values(row, read)]
    if isinstance(packed, str):
        return values[0]
    return values if "list" in packed else {key: one for held in values for key, one in held.items()}


def _values(row: Row, read: Read) -> list[list[str]]:
    if "values" in row:
        return row["values"]  # type: ignore[no-any-return]
    refs = row["refs"].split()
    pieces = read(refs)
    return json.loads("".join(pieces[ref]["piece"] for ref in refs))  # type: ignore[no-any-return]


def refs_of(packed: Iterable[Any], read: Read) -> set[str]:
    """Return all rows that packed values need; only those of references are read."""
    return {ref for one in packed for refs in _down(one, read) for ref in refs}


def refs_in(packed: Iterable[Any], held: Mapping[str, Iterable[str]]) -> set[str]:
    """Return all rows that packed values need, by the references that each row holds."""
    out = set[str]()
    ahead = [ref for one in packed for level in _levels_of(one) for ref in level]
    while ahead:
        ref = ahead.pop()
        if ref not in out:
            out.add(ref)
            ahead += held.get(ref, ())
    return out


def encoded(typed: tuple[str, bytes]) -> list[str]:
    """Return serialized data as JSON, compressed where that makes it smaller."""
    kind, data = typed
    small = zlib.compress(data) if len(data) > _MIN_COMPRESSED_BYTES else data
    if len(small) < len(data):
        return [kind, b64encode(small).decode(), "zlib"]
    return [kind, b64encode(data).decode()]


def decoded(written: Sequence[str]) -> tuple[str, bytes]:
    """Return the data that `encoded` wrote."""
    kind, text, *how = written
    data = b64decode(text)
    return kind, zlib.decompress(data) if how else data


def _levels_of(packed: Any) -> list[list[str]]:
    if isinstance(packed, dict):
        return [level.split() for levels in packed.values() for level in levels]
    return [[packed]] if isinstance(packed, str) else []


def _length(row: Row) -> int:
    """Return about how many characters a row has."""
    return 100 + sum(len(v) if isinstance(v, str) else sum(len(one[1]) for one in v) for v in row.values())


def _parts(elements: Iterable[tuple[str, bytes]]) -> list[list[tuple[str, bytes]]]:
    """Return the elements in parts that stay the same when more are added after them."""
    parts, size = [list[tuple[str, bytes]]()], 0
    for typed in elements:
        if size >= _MIN_PART_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(typed)
        size += len(typed[1])
    return parts
