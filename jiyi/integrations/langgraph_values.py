"""Values of a LangGraph thread as rows, each content once: lists and dicts by their parts.

A packed value is JSON, one of three forms:

- ``[type, data]`` or ``[type, data, "zlib"]``: a small value itself, serialized, in Base64;
- ``"ref"``: the row that holds it;
- ``{"list": levels}`` or ``{"dict": levels}``: its parts. The last level but fewer than 16 rows of parts are
  in ``levels[0]``; every 16 of them have a row of their own, of which fewer than 16 are in ``levels[1]``; and
  so on. What grows at its end adds its new parts, and one row in 16 besides.
"""

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import chain
from secrets import token_urlsafe
from typing import Any

from jiyi.integrations.common import RecentEntries

Row = dict[str, Any]
"""What a reference stands for: ``{"values": [...]}``, or ``{"refs": "..."}`` of 16 others.

Values that are too long for a row are cut as text: ``{"refs": "..."}`` of rows ``{"piece": "..."}``.
"""

Read = Callable[[Iterable[str]], Mapping[str, Row]]
"""Reads rows by their references."""

_Typed = tuple[str, bytes]  # the type and data of a serialized value

_MAX_INLINE_BYTES = 200  # bytes of a value that is kept where it is used: a row would take more
_MIN_PART_BYTES = 200  # bytes from which elements of a list fill a row
_MAX_ROW_LENGTH = 500_000  # characters of a row
_REFS_PER_ROW = 16  # references that become one
_MIN_COMPRESSED_BYTES = 100  # bytes from which compression is tried
_HASH_LENGTH = 20  # characters of a reference that say what it holds; the others, who wrote it


class Packer:
    """Packs the values of one change.

    Args:
        serde: LangGraph's ``SerializerProtocol``; where equal values give different data, as with
            encryption, nothing is shared.
        known: references to rows that are stored and will stay.
    """

    def __init__(self, serde: Any, known: Iterable[str]) -> None:
        self.refs: set[str] = set()  # all rows that the packed values need
        self.new: dict[str, Row] = {}  # those that are not stored yet
        self._serde = serde
        self._known = {ref[:_HASH_LENGTH]: ref for ref in known}
        # A row is written once, under a name no other change uses: whoever deletes what nothing refers to
        # cannot take what is written meanwhile.
        self._writer = token_urlsafe(3)

    def pack(self, value: Any) -> Any:
        """Return a value packed."""
        is_numbers = type(value) is list and all(isinstance(element, int | float) for element in value)
        if type(value) in (list, dict) and value and not is_numbers:
            form = type(value).__name__
            elements = value if form == "list" else [{key: element} for key, element in value.items()]
            typed = [self._serde.dumps_typed(element) for element in elements]
            if sum(len(data) for _, data in typed) > _MAX_INLINE_BYTES:
                return {form: self._pack_levels([self._pack_row(part) for part in _split_into_parts(typed)])}
        whole = self._serde.dumps_typed(value)
        return encode(whole) if len(whole[1]) <= _MAX_INLINE_BYTES else self._pack_row([whole])

    def _pack_levels(self, refs: list[str]) -> list[str]:
        levels: list[str] = []
        while True:
            end = len(refs) // _REFS_PER_ROW * _REFS_PER_ROW
            levels.append(" ".join(refs[end:]))
            if not end:
                return levels
            texts = [" ".join(refs[at : at + _REFS_PER_ROW]) for at in range(0, end, _REFS_PER_ROW)]
            refs = [self._add_row(text.encode(), partial(dict, refs=text)) for text in texts]

    def _pack_row(self, part: Sequence[_Typed]) -> str:
        content = b"".join(b"%s %d %s" % (kind.encode(), len(data), data) for kind, data in part)
        return self._add_row(content, lambda: self._build_row([encode(typed) for typed in part]))

    def _build_row(self, values: list[list[str]]) -> Row:
        if sum(len(value[1]) for value in values) <= _MAX_ROW_LENGTH:
            return {"values": values}
        text = json.dumps(values)
        pieces = [text[at : at + _MAX_ROW_LENGTH] for at in range(0, len(text), _MAX_ROW_LENGTH)]
        refs = [self._add_row(b"piece " + p.encode(), partial(dict, piece=p)) for p in pieces]
        return {"refs": " ".join(refs)}

    def _add_row(self, content: bytes, build: Callable[[], Row]) -> str:
        """Return the reference of the row with this content, which is built if it is not known."""
        digest = b64encode(blake2b(content, digest_size=15).digest(), b"-_").decode()
        ref = self._known.get(digest)
        if ref is None:
            ref = self._known[digest] = digest + self._writer
            self.new[ref] = build()
        self.refs.add(ref)
        return ref


class RowCache:
    """The rows that were read last, up to ``max_length`` characters: what a reference stands for stays."""

    def __init__(self, max_length: int = 50_000_000) -> None:
        self._rows: RecentEntries[str, Row] = RecentEntries(max_length, _measure)

    def get(self, refs: Iterable[str], read: Read) -> dict[str, Row]:
        """Return rows, those that are not here from ``read``."""
        wanted = set(refs)
        rows = {ref: row for ref in wanted if (row := self._rows.get(ref)) is not None}
        if missing := wanted - rows.keys():
            new = read(missing)
            self.add(new)
            rows.update(new)
        return rows

    def add(self, rows: Mapping[str, Row]) -> None:
        """Keep rows."""
        for ref, row in rows.items():
            self._rows.put(ref, row)


def unpack(packed_values: Sequence[Any], serde: Any, read: Read) -> list[Any]:
    """Return the values that these stand for."""
    refs_of_parts = [(list(_walk_levels(packed, read)) or [[]])[-1] for packed in packed_values]
    rows = read({ref for refs in refs_of_parts for ref in refs})
    return [
        _unpack_value(packed, [rows[ref] for ref in refs], serde, read)
        for packed, refs in zip(packed_values, refs_of_parts, strict=True)
    ]


def _walk_levels(packed: Any, read: Read) -> Iterator[list[str]]:
    """Yield the references of each level of a packed value, those of its parts last."""
    refs: list[str] = []
    for level in reversed(_levels_of(packed)):
        rows = read(refs) if refs else {}
        refs = [inner for ref in refs for inner in rows[ref]["refs"].split()] + level
        yield refs


def _unpack_value(packed: Any, rows: Sequence[Row], serde: Any, read: Read) -> Any:
    if isinstance(packed, list):
        return serde.loads_typed(decode(packed))
    values = [serde.loads_typed(decode(encoded)) for row in rows for encoded in _read_values(row, read)]
    if isinstance(packed, str):
        return values[0]
    return values if "list" in packed else dict(chain.from_iterable(value.items() for value in values))


def _read_values(row: Row, read: Read) -> list[list[str]]:
    if "values" in row:
        return row["values"]  # type: ignore[no-any-return]
    refs = row["refs"].split()
    pieces = read(refs)
    return json.loads("".join(pieces[ref]["piece"] for ref in refs))  # type: ignore[no-any-return]


def find_refs(packed_values: Iterable[Any], read: Read) -> set[str]:
    """Return all rows that packed values need; only those of references are read."""
    return {ref for packed in packed_values for refs in _walk_levels(packed, read) for ref in refs}


def collect_refs(packed_values: Iterable[Any], inner_refs: Mapping[str, Iterable[str]]) -> set[str]:
    """Return all rows that packed values need, by the references that each row holds."""
    refs: set[str] = set()
    waiting = [ref for packed in packed_values for level in _levels_of(packed) for ref in level]
    while waiting:
        ref = waiting.pop()
        if ref not in refs:
            refs.add(ref)
            waiting += inner_refs.get(ref, ())
    return refs


def encode(typed: _Typed) -> list[str]:
    """Return serialized data as JSON, compressed where that makes it smaller."""
    kind, data = typed
    compressed = zlib.compress(data) if len(data) > _MIN_COMPRESSED_BYTES else data
    if len(compressed) < len(data):
        return [kind, b64encode(compressed).decode(), "zlib"]
    return [kind, b64encode(data).decode()]


def decode(encoded: Sequence[str]) -> _Typed:
    """Return the data that `encode` wrote."""
    kind, text, *compression = encoded
    data = b64decode(text)
    return kind, zlib.decompress(data) if compression else data


def _levels_of(packed: Any) -> list[list[str]]:
    if isinstance(packed, dict):
        return [level.split() for levels in packed.values() for level in levels]
    return [[packed]] if isinstance(packed, str) else []


def _measure(row: Row) -> int:
    """Return about how many characters a row has."""
    values = row.values()
    return 100 + sum(len(v) if isinstance(v, str) else sum(len(encoded[1]) for encoded in v) for v in values)


def _split_into_parts(elements: Iterable[_Typed]) -> list[list[_Typed]]:
    """Return the elements in parts that stay the same when more are added after them."""
    parts: list[list[_Typed]] = [[]]
    for typed in elements:
        if sum(len(data) for _, data in parts[-1]) >= _MIN_PART_BYTES:
            parts.append([])
        parts[-1].append(typed)
    return parts
