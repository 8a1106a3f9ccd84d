"""Tables of cases: as plain text beside a test, and as values of a few names."""

from ast import literal_eval
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = tuple[str, ...] | str


def read_tables(test_file: str) -> dict[str, list[Row]]:
    r"""Return the tables that lie beside a test file: those of test_keys.py are in keys.txt.

    "# name" begins a table, a line is a row, "|" parts its cells, and "\n" in a cell is the end of a line.
    Of a table with one column a row is its cell, of others all cells.
    """
    test = Path(test_file)
    found: dict[str, list[Row]] = {}
    rows: list[Row] = []
    for line in test.with_name(test.stem.removeprefix("test_") + ".txt").read_text("utf-8").split("\n"):
        if line.startswith("# "):
            rows = found[line[2:]] = []
        elif line:
            cells = tuple(cell.strip().replace("\\n", "\n") for cell in line.split("|"))
            rows.append(cells if len(cells) > 1 else cells[0])
    return found


def literals(rows: list[Row]) -> list[Any]:
    """Return rows whose cells are written as in Python, as the values they stand for."""
    return [tuple(map(literal_eval, row)) if isinstance(row, tuple) else literal_eval(row) for row in rows]


def each(**values: Iterable[object]) -> list[dict[str, object]]:
    """Return a dict for every value: of limit=[0, -1] {"limit": 0} and {"limit": -1}."""
    return [{name: value} for name, some in values.items() for value in some]
