"""A long JSON in lines: its longest list as a table of rows, everything else leaf by leaf."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from jiyi.prompts import wording
from jiyi.text.cut import clipped

__all__ = ["JsonLines", "json_lines"]

_LEAST_ROWS, _LEAST_ENTRIES = 3, 8  # of a list, and of an object of objects, that is shown as a table
_DEEPEST = 6
_MOST_COLUMNS = 40
_FEW = 6  # different values of a column that are named with their counts
_NAMED = 60  # characters of a value that is named with its count
_MOST_NOTABLE = 40
_LEAST_CELL = 200  # characters of a value that are shown at the least
# Columns of no key, which would be written without quotes.
_KEY, _ITEM, _OTHERS = '"key"', '"item"', '"other keys"'
_PLAIN_KEY = re.compile(r"[^\W\d][\w-]*")
_BARE = re.compile(r"[^\W\d](?:[^|\n\r\t…\ud800-\udfff]*[^|\s…\ud800-\udfff])?")
_LONE = re.compile("[\ud800-\udfff]")
_FAULTS = {"err", "errno", "errmsg", "warning", "warnings"}  # keys, beside those that speak of errors
_NO_FAULT = {"", "0", "false", "none", "null", "ok", "no"}


class _Mark:
    """Stands in a column where an item has no value of its own."""


_ABSENT = _Mark()  # it does not have the key
_OBJECT = _Mark()  # it has an object, whose keys are columns of their own
_AS_THEY_ARE = {str, int, type(None), _Mark}  # are equal only to what is the same JSON; 1 == True == 1.0


_Errors = Callable[[Sequence[str]], set[int]]
"""Gives the places of the texts that speak of errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLines:
    """A JSON value in lines."""

    head: tuple[str, ...]  # what the lines are, and what holds for all items; () where there is no table
    lines: "_Lines"  # the rows of the table, then the other leaves
    notable: tuple[int, ...]  # lines that speak of errors or differ from most; the first ones matter most


def json_lines(value: Any, errors: _Errors, spoken: str) -> JsonLines:
    """Return a JSON value in lines, each with its values.

    The longest list in it is a table: a line for each item under the paths of its columns. An
    object of at least eight objects is one too, with its keys in the column ``"key"``. Under each
    other path stands a line for each leaf, and one for each list of numbers.

    What the head says of all items (values that are the same, values with their counts, ranges of
    numbers) is true of all. A value that is cut ends in "…". Texts stand without quotes where they cannot
    be taken for anything else; an empty cell means that the item does not have the key.

    Args:
        value: what `json.loads` gave.
        errors: finds the texts that speak of errors.
        spoken: "zh" or "en", for the words in the head.
    """
    path, table = _largest(value)
    items: Sequence[Any] = (
        [{_KEY: key, **item} for key, item in table.items()] if isinstance(table, dict) else table
    )
    columns = [_Column(name, cells) for name, cells in _columns(items).items()]
    shown = [column for column in columns if len(column.seen) > 1]
    rest = list(_leaves(value, table))
    rows = len(items) if shown else 0
    faults = (rows + place for place in _faulty(rest, errors))
    return JsonLines(
        head=_head(path, len(items), columns, shown, spoken) if items else (),
        lines=_Lines(shown, rows, rest),
        notable=(*islice(faults, _MOST_NOTABLE), *(_unlike(shown, errors) if shown else ()))[:_MOST_NOTABLE],
    )


class _Column:
    """The values of all items under one path."""

    def __init__(self, name: str, cells: Sequence[Any]) -> None:
        self.name = name
        self.cells = cells
        # What two cells have in common if, and only if, they hold the same JSON.
        self.keys = [
            cell
            if cell.__class__ in _AS_THEY_ARE
            else (cell.__class__, repr(cell) if isinstance(cell, list | dict) else cell)
            for cell in cells
        ]
        self.seen = Counter(self.keys)

    def told(self, words: Mapping[str, str]) -> str:
        """Return the range of its numbers and how often its values occur; "" where most occur once."""
        numbers = {key: number for key in self.seen if (number := _number(key)) is not None}
        if len(numbers) <= _FEW:
            numbers = {}
        if not numbers and self.seen.most_common(1)[0][1] == 1:
            return ""
        named = [
            (text, count)
            for key, count in self.seen.most_common(2 * _FEW)
            if (count > 1 or len(self.seen) <= _FEW) and key not in numbers
            if len(text := self._written(key, words["absent"])) <= _NAMED
        ][:_FEW]
        parts = [f"{text} x {count:,}" for text, count in named]
        left = len(self.cells) - sum(count for _, count in named)
        if numbers:
            of = sum(self.seen[key] for key in numbers)
            span = f"{_json(min(numbers.values()))}..{_json(max(numbers.values()))}"
            parts.insert(0, span if of == len(self.cells) else f"{span} x {of:,}")
            left -= of
        if 2 * left > len(self.cells) or not parts:
            return ""
        if left:
            parts.append(f"{words['others']} x {left:,}")
        return f"{self.name}: {', '.join(parts)}" if self.name else ", ".join(parts)

    def _written(self, key: Any, absent: str) -> str:
        cell = self.cells[self.keys.index(key)]
        return absent if cell is _ABSENT else "{…}" if cell is _OBJECT else _json(cell)


@dataclass(slots=True)
class _Lines:
    """Rows of a table and leaves, written when they are asked for."""

    columns: Sequence[_Column]
    rows: int  # of the table
    rest: Sequence[tuple[str, Any]]  # the leaves, by name
    cell: int = _LEAST_CELL  # characters of a value that are shown

    def __len__(self) -> int:
        return self.rows + len(self.rest)

    def __getitem__(self, place: int) -> str:
        if place < self.rows:
            return " | ".join(self._cut(column.cells[place]) for column in self.columns)
        name, leaf = self.rest[place - self.rows]
        return f"{name}: {self._cut(leaf)}" if name else self._cut(leaf)

    def all_in(self, room: int) -> list[str]:
        """Return all lines, with values cut so that they take about ``room`` characters."""
        cells = [leaf for _, leaf in self.rest] + [cell for column in self.columns for cell in column.cells]
        lengths = [len(_shown(cell)) for cell in cells]
        self.cell = max(_LEAST_CELL, room)
        while self.cell > _LEAST_CELL and sum(min(length, self.cell) for length in lengths) > room:
            self.cell = max(_LEAST_CELL, self.cell * 9 // 10)
        made = [self[place] for place in range(len(self))]
        self.cell = _LEAST_CELL
        return made

    def _cut(self, cell: Any) -> str:
        return clipped(_shown(cell), self.cell)


def _head(
    path: str, count: int, columns: Sequence[_Column], shown: Sequence[_Column], spoken: str
) -> tuple[str, ...]:
    words = wording("json", spoken)
    of = words["of"].format(path=path) if path else ""
    head = [words["items"].format(count=count, path=of)]
    alike = [column for column in columns if len(column.seen) == 1]
    if alike:
        values = ((column.name, clipped(_json(column.cells[0]), _LEAST_CELL)) for column in alike)
        same = (f"{name}: {value}" if name else value for name, value in values)
        head.append(words["same"].format(count=count, list="; ".join(same)))
    fewest = sorted(shown, key=lambda column: len(column.seen))
    if told := [text for column in fewest if (text := column.told(words))]:
        head.append(words["values"].format(count=count, list="; ".join(told)))
    if any(column.name for column in shown):
        head.append(" | ".join(column.name for column in shown))
    return tuple(head)


def _largest(value: Any) -> tuple[str, Any]:
    """Return the path and the longest list, or object of objects, that is worth a table, else ("", ()).

    What lies inside a list of eight items and more is part of its rows.
    """
    best: tuple[str, Any] = ("", ())
    waiting = [("", value, 0)] if value.__class__ in (dict, list) else []
    for path, one, depth in waiting:
        if isinstance(one, dict):
            named: Iterator[tuple[Any, Any]] = iter(one.items())
            fits = len(one) >= _LEAST_ENTRIES and set(map(type, one.values())) == {dict}
        else:
            named = enumerate(one)
            fits = len(one) >= _LEAST_ROWS and not _numbers(one)
        if fits and len(one) > len(best[1]):
            best = (path, one)
        if depth < _DEEPEST and not (fits and len(one) >= _LEAST_ENTRIES):
            waiting += ((_joined(path, k), i, depth + 1) for k, i in named if i.__class__ in (dict, list))
    return best


def _columns(items: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the values of all items by path; what lies under keys after the fortieth is one column."""
    found: dict[str, list[Any]] = {}
    others: list[Any] = [_ABSENT] * len(items)

    def add(path: str, cells: list[Any], depth: int) -> None:
        objects = [cell if cell.__class__ is dict else {} for cell in cells] if depth < _DEEPEST else []
        if not any(objects):
            found[path] = cells
            return
        plain = [_OBJECT if full else cell for cell, full in zip(cells, objects, strict=True)]
        if any(cell.__class__ is not _Mark for cell in plain):
            found[path or _ITEM] = plain
        keys = list(dict.fromkeys(chain.from_iterable(objects)))
        while keys and len(found) < _MOST_COLUMNS:
            key = keys.pop(0)
            add(_joined(path, key), [one.get(key, _ABSENT) for one in objects], depth + 1)
        left = set(keys)
        for place, one in enumerate(objects if left else ()):
            if rest := {_joined(path, key): one[key] for key in one if key in left}:
                others[place] = rest if others[place] is _ABSENT else {**others[place], **rest}

    if items:
        add("", list(items), 0)
    if any(cell is not _ABSENT for cell in others):
        found[_OTHERS] = others
    return found


def _leaves(value: Any, table: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    if value is table:
        return
    inner: Iterator[tuple[Any, Any]] | None = None
    if depth < _DEEPEST and value:
        if isinstance(value, dict):
            inner = iter(value.items())
        elif isinstance(value, list) and not _numbers(value):
            inner = enumerate(value)
    if inner is None:
        yield path, value
        return
    for key, one in inner:
        if one.__class__ in (dict, list):
            yield from _leaves(one, table, _joined(path, key), depth + 1)
        else:
            yield _joined(path, key), one


def _joined(path: str, key: str | int) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    name = key if key is _KEY or _PLAIN_KEY.fullmatch(key) else _json(key)
    return f"{path}.{name}" if path else name


def _numbers(value: Sequence[Any]) -> bool:
    return set(map(type, value)) <= {int, float, bool, type(None)}


def _number(key: Any) -> int | float | None:
    if key.__class__ is int:
        return key
    return key[1] if key.__class__ is tuple and key[0] is float else None


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if _LONE.search(text) else text


def _shown(value: Any) -> str:
    """Return a value as it stands in a line."""
    if value.__class__ is _Mark:
        return "" if value is _ABSENT else "{…}"
    if isinstance(value, str) and _BARE.fullmatch(value) and value not in ("true", "false", "null"):
        return value
    if isinstance(value, list) and len(value) > _FEW and _numbers(value):
        numbers = [item for item in value if item is not None]
        span = f", {_json(min(numbers))}..{_json(max(numbers))}" if numbers else ""
        return f"[{', '.join(map(_json, value[:3]))}, … {_json(value[-1])}] x {len(value):,}{span}"
    return _json(value)


def _faulty(named: Sequence[tuple[str, Any]], errors: _Errors) -> list[int]:
    """Return the places of the values that speak of errors themselves or by their names."""
    names = list(dict.fromkeys(name for name, _ in named))
    bad = {names[place] for place in errors(names)}
    bad |= {name for name in names if name.rpartition(".")[2].lower() in _FAULTS}
    texts = [
        value if value.__class__ is str else repr(value) if value.__class__ in (list, dict) and value else ""
        for _, value in named
    ]
    found = errors(texts)
    found |= {
        place
        for place, (name, value) in enumerate(named)
        if name in bad
        and value.__class__ is not _Mark
        and (texts[place] or str(value or "")).lower() not in _NO_FAULT
    }
    return sorted(found)


def _unlike(columns: Sequence[_Column], errors: _Errors) -> list[int]:
    """Return the first row of each kind but the commonest: those with errors first, then the rarest.

    Rows are of one kind that have the same values where a column has few.
    """
    faults: set[int] = set()
    for column in columns:
        cells = dict(zip(column.keys, column.cells, strict=True))
        keys = list(cells)
        bad = {keys[place] for place in _faulty([(column.name, cell) for cell in cells.values()], errors)}
        faults.update(place for place, key in enumerate(column.keys) if bad and key in bad)
    few = [column.keys for column in columns if len(column.seen) <= _FEW]
    if not faults and not few:
        return []
    kinds = list(zip((place in faults for place in range(len(columns[0].keys))), *few, strict=True))
    counts = Counter(kinds)
    first = dict(zip(reversed(kinds), range(len(kinds) - 1, -1, -1), strict=True))
    order = sorted(counts, key=lambda kind: (not kind[0], counts[kind], first[kind]))
    return [first[kind] for kind in order if kind[0] or kind != order[-1]]
