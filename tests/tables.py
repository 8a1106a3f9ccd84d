"""Tables of cases, as plain text beside a test: "# name" begins one, a line is a row, "|" parts its cells."""

from pathlib import Path

Row = tuple[str, ...] | str


def read_tables(test_file: str) -> dict[str, list[Row]]:
    r"""Return the tables that lie beside a test file: those of test_keys.py are in keys.txt.

    Of a table with one column a row is its cell, of others all cells. "\n" in a cell is the end of a line.
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
