"""Named SQL: statements, shared and of each dialect, and numbered migrations in a folder for each."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

__all__ = ["load_conditions", "load_migrations", "load_queries"]

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_NUMBERED = re.compile(r"^(\d{4})_\w+\.sql$")
_SPELLED = re.compile(r"@([a-z_]+)(?:\(([:.\w]+)\))?")


@cache
def load_conditions(dialect: str) -> Mapping[str, str]:
    """Return how a dialect writes conditions, and what it spells in its own way, by name."""
    own = _read(f"{dialect}/spellings.sql") | _read(f"{dialect}/conditions.sql")
    return MappingProxyType(own | _spelled("conditions.sql", dialect))


@cache
def load_queries(dialect: str) -> Mapping[str, str]:
    """Return the statements of a dialect by name: those of ``queries.sql`` and ``<dialect>/queries.sql``."""
    return MappingProxyType(_spelled("queries.sql", dialect) | _read(f"{dialect}/queries.sql"))


def _spelled(path: str, dialect: str) -> dict[str, str]:
    words = _read(f"{dialect}/spellings.sql")
    return {
        name: _SPELLED.sub(lambda found: words[found[1]].format(found[2]), text)
        for name, text in _read(path).items()
    }


def _read(path: str) -> dict[str, str]:
    parts = _NAME.split((files(__package__) / path).read_text(encoding="utf-8"))[1:]
    # What follows the last semicolon is a headline of the statements after it.
    return {name: body[: body.rindex(";")] for name, body in zip(parts[::2], parts[1::2], strict=True)}


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
