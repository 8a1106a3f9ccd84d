"""Show long JSON as lines: its longest list as a table, everything else leaf by leaf."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jiyi.prompts import wording
from jiyi.text.cut import clip

CELL = 200
"""Characters of a value that a line shows by default."""

_MIN_ROWS, _MIN_ENTRIES = 3, 8  # of a list, and of an object of objects, that is shown as a table
_MAX_DEPTH = 6
_MAX_COLUMNS = 40
_MAX_LISTED_VALUES = 6  # different values of a column that are named with their counts
_MAX_LISTED_CHARS = 60  # characters of a value that is named with its count
_MAX_NOTABLE = 40
# Names of columns that are no keys: a key would be written without quotes.
_KEY_COLUMN, _ITEM_COLUMN, _OTHERS_COLUMN = '"key"', '"item"', '"other keys"'
_PLAIN_KEY = re.compile(r"[^\W\d][\w-]*")
_UNQUOTABLE = re.compile(r'"([^\W\d](?:[^|\\…]*[^|\s…\\])?)"')
_RESERVED = ('"true"', '"false"', '"null"')  # ambiguous without quotes
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_ERROR_KEYS = {"err", "errno", "errmsg", "warning", "warnings"}  # in addition to keys that speak of errors
_NO_ERROR_VALUES = {"", "0", "false", "none", "null", "ok", "no", "[]", "{}"}

_NUMBERS = {int, float}
_PLAIN_TYPES = {*_NUMBERS, bool, type(None)}

_Errors = Callable[[Sequence[str]], set[int]]  # gives the places of the texts that speak of errors

_encode_json = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLines:
    """A JSON value in lines, written when they are asked for: the rows of a table, then the other leaves."""

    head: tuple[str, ...]  # what the lines are, and what holds for all items; () without a table
    notable: tuple[int, ...]  # lines that speak of errors or differ from most; the first ones matter most
    columns: "Sequence[_Column]"
    rows: int  # of the table
    rest: Sequence[tuple[str, str]]  # the leaves, by name

    def __len__(self) -> int:
        return self.rows + len(self.rest)

    def __getitem__(self, place: int) -> str:
        return self.line(place)

    def line(self, place: int, cell: int = CELL) -> str:
        """Return a line with so many characters of each value."""
        if place < self.rows:
            return " | ".join(_shorten(column.cells[place], cell) for column in self.columns)
        name, leaf = self.rest[place - self.rows]
        return f"{name}: {_shorten(leaf, cell)}" if name else _shorten(leaf, cell)


def json_lines(value: Any, errors: _Errors, language: str) -> JsonLines:
    """Return a JSON value in lines, each with its values.

    The longest list in it is a table: a line for each item under the paths of its columns. An
    object of at least eight objects is one too, with its keys in the column ``"key"``. Under each
    other path stands a line for each leaf.

    What the head says of all items (values that are the same, values with their counts, ranges of
    numbers), in ``language``, is true of all. A value that is cut ends in "…". Texts stand without quotes
    where they cannot be taken for anything else; an empty cell means that the item does not have the key.
    """
    path, table = _find_table(value)
    columns = _read_columns(table)
    shown = [column for column in columns if len(column.seen) > 1]
    rest = [(name, _encode(leaf)) for name, leaf in _find_leaves(value, (dict, list), skip=table)]
    rows = len(table) if shown else 0
    notable = [rows + place for place in _find_error_rows(rest, errors)]
    if shown:
        notable += _find_unusual_rows(shown, errors)
    return JsonLines(
        head=_write_header(path, len(table), columns, shown, language) if table else (),
        notable=tuple(notable[:_MAX_NOTABLE]),
        columns=shown,
        rows=rows,
        rest=rest,
    )


class _Column:
    """The values of all items under one path, as JSON; None where an item has none."""

    def __init__(self, name: str, cells: list[str | None], numbers: Sequence[float]) -> None:
        self.name = name
        self.cells = cells
        self.seen = Counter(cells)
        self._numbers = numbers  # where every item has one

    def summary(self, words: Mapping[str, str]) -> str:
        """Return the counts of its values, or the range of its numbers; "" where that says little."""
        total, common = len(self.cells), self.seen.most_common(_MAX_LISTED_VALUES)
        many = len(self.seen) > _MAX_LISTED_VALUES
        if many and self._numbers:
            said = f"{_encode(min(self._numbers))}..{_encode(max(self._numbers))}"
        else:
            fewest = 2 if many or common[0][1] == 1 else 1
            listed = [(words["absent"] if cell is None else cell, n) for cell, n in common if n >= fewest]
            listed = [(text, count) for text, count in listed if len(text) <= _MAX_LISTED_CHARS]
            others = total - sum(count for _, count in listed)
            if not listed or 2 * others > total:
                return ""
            listed += [(words["others"], others)] * (others > 0)
            said = ", ".join(f"{text} x {count:,}" for text, count in listed)
        return f"{self.name}: {said}" if self.name else said


def _write_header(
    path: str, count: int, columns: Sequence[_Column], shown: Sequence[_Column], language: str
) -> tuple[str, ...]:
    words = wording("json", language)
    head = [words["items"].format(count=count, path=words["of"].format(path=path) if path else "")]
    same = [(column.name, clip(column.cells[0] or "", CELL)) for column in columns if len(column.seen) == 1]
    if same:
        values = "; ".join(f"{name}: {value}" if name else value for name, value in same)
        head.append(words["same"].format(count=count, list=values))
    fewest = sorted(shown, key=lambda column: len(column.seen))
    if summaries := [text for column in fewest if (text := column.summary(words))]:
        head.append(words["values"].format(count=count, list="; ".join(summaries)))
    if any(column.name for column in shown):
        head.append(" | ".join(column.name for column in shown))
    return tuple(head)


def _find_table(value: Any) -> tuple[str, Any]:
    """Return the path and the longest list, or object of objects, that is worth a table, else ("", ()).

    What is inside a list of eight or more items belongs to its rows.
    """
    best: tuple[str, Any] = ("", ())
    queue = [("", value, 0)] if isinstance(value, dict | list) else []
    for path, node, depth in queue:
        entries: Iterable[tuple[Any, Any]] = node.items() if isinstance(node, dict) else enumerate(node)
        if isinstance(node, dict):
            fits = len(node) >= _MIN_ENTRIES and set(map(type, node.values())) == {dict}
        else:
            fits = len(node) >= _MIN_ROWS and not set(map(type, node)) <= _PLAIN_TYPES
        if fits and len(node) > len(best[1]):
            best = (path, node)
        if depth < _MAX_DEPTH and not (fits and len(node) >= _MIN_ENTRIES):
            queue += ((_join_path(path, k), i, depth + 1) for k, i in entries if isinstance(i, dict | list))
    return best


def _read_columns(table: Any) -> list[_Column]:
    """Return the values of all items by path; the values of all keys after the fortieth are one column."""
    items = [{_KEY_COLUMN: key, **item} for key, item in table.items()] if isinstance(table, dict) else table
    unnamed = _ITEM_COLUMN if any(isinstance(item, dict) and item for item in items) else ""
    leaves: dict[str, list[Any]] = {}
    cells: dict[str, list[str | None]] = {}
    others: list[dict[str, Any]] = [{} for _ in items]
    for place, item in enumerate(items):
        for path, leaf in _find_leaves(item, (dict,)):
            name = path or unnamed
            if name not in cells:
                if len(cells) == _MAX_COLUMNS:
                    others[place][name] = leaf
                    continue
                cells[name], leaves[name] = [None] * len(items), []
            cells[name][place] = _encode(leaf)
            leaves[name].append(leaf)
    columns = []
    for name, values in leaves.items():
        numeric = len(values) == len(items) and set(map(type, values)) <= _NUMBERS
        columns.append(_Column(name, cells[name], values if numeric else ()))
    if any(others):
        columns.append(_Column(_OTHERS_COLUMN, [_encode(left) if left else None for left in others], ()))
    return columns


def _find_leaves(
    value: Any, into: tuple[type, ...], path: str = "", depth: int = 0, *, skip: Any = None
) -> Iterator[tuple[str, Any]]:
    """Yield leaves by path: values that are no container, empty containers, and lists of numbers."""
    inner: Any = value if value and isinstance(value, into) and depth < _MAX_DEPTH else None
    if value is skip and skip is not None:
        return
    if isinstance(inner, dict):
        for key, element in inner.items():
            yield from _find_leaves(element, into, _join_path(path, key), depth + 1, skip=skip)
    elif inner and not set(map(type, inner)) <= _PLAIN_TYPES:
        for place, element in enumerate(inner):
            yield from _find_leaves(element, into, _join_path(path, place), depth + 1, skip=skip)
    else:
        yield path, value


@lru_cache(maxsize=4096)
def _join_path(path: str, key: str | int) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    name = key if key == _KEY_COLUMN or _PLAIN_KEY.fullmatch(key) else _encode(key)
    return f"{path}.{name}" if path else name


def _encode(value: Any) -> str:
    text = _encode_json(value)
    return json.dumps(value) if _LONE_SURROGATE.search(text) else text


def _shorten(written: str | None, max_chars: int) -> str:
    bare = _UNQUOTABLE.fullmatch(written or "")
    return clip(bare[1] if bare and written not in _RESERVED else written or "", max_chars)


def _find_error_rows(values: Sequence[tuple[str, str]], errors: _Errors) -> list[int]:
    """Return the places of the values that speak of errors themselves or by their names."""
    names = list(dict.fromkeys(name for name, _ in values))
    bad_names = {names[place] for place in errors(names)}
    bad_names |= {name for name in names if name.rpartition(".")[2].lower() in _ERROR_KEYS}
    bad_values = errors([value for _, value in values])
    harmless = [value.strip('"').lower() in _NO_ERROR_VALUES for _, value in values]
    bad_values |= {n for n, (name, _) in enumerate(values) if name in bad_names and not harmless[n]}
    return sorted(bad_values)


def _find_unusual_rows(columns: Sequence[_Column], errors: _Errors) -> list[int]:
    """Return the first row of each kind but the commonest: those with errors first, then the rarest.

    Rows are of one kind that have the same values where a column has few.
    """
    faults: set[int] = set()
    for column in columns:
        cells = [cell for cell in column.seen if cell is not None]
        bad = {cells[place] for place in _find_error_rows([(column.name, cell) for cell in cells], errors)}
        faults.update(place for place, cell in enumerate(column.cells) if bad and cell in bad)
    few = [column.cells for column in columns if len(column.seen) <= _MAX_LISTED_VALUES]
    kinds = list(zip((place in faults for place in range(len(columns[0].cells))), *few, strict=True))
    counts, first = Counter(kinds), {kind: place for place, kind in reversed(list(enumerate(kinds)))}
    order = sorted(counts, key=lambda kind: (not kind[0], counts[kind], first[kind]))
    return [first[kind] for kind in order if kind[0] or kind != order[-1]]
