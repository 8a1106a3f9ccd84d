"""Named SQL: statements and numbered migrations, one folder for each dialect."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

__all__ = ["load_migrations", "load_queries"]

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_NUMBERED = re.compile(r"^(\d{4})_\w+\.sql$")


@cache
def load_queries(dialect: str) -> Mapping[str, str]:
    """Return the statements of ``<dialect>/queries.sql`` by name."""
    text = (files(__package__) / dialect / "queries.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    # What follows the last semicolon is a headline of the statements behind it.
    return MappingProxyType({name: body[: body.rindex(";")] for name, body in pairs})


@cache
def load_migrations(dialect: str) -> Mapping[int, str]:
    """Return the migration scripts of a dialect by number, in order, without gaps."""
    found = {
        int(match[1]): entry.read_text(encoding="utf-8")
        for entry in (files(__package__) / dialect).iterdir()
        if (match := _NUMBERED.match(entry.name))
    }
    numbers = sorted(found)
    assert numbers == list(range(1, len(numbers) + 1)), "migrations are numbered 1, 2, 3, ..."
    return MappingProxyType({number: found[number] for number in numbers})
