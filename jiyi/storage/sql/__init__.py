"""Named SQL statements, shared and per dialect, and the numbered migrations of each dialect."""

import re
from collections.abc import Mapping
from functools import cache, partial
from importlib.resources import files
from types import MappingProxyType

__all__ = ["MIGRATION_SECONDS", "load_conditions", "load_migrations", "load_queries", "read_statements"]

MIGRATION_SECONDS = 120  # how long to wait for another process's migration

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_MIGRATION = re.compile(r"^(\d{4})_\w+\.sql$")
_PLACEHOLDER = re.compile(r"@([a-z_]+)(?:\(([:.\w]+)\))?")


def read_statements(package: str, path: str) -> dict[str, str]:
    """Return the statements of a file of a package by name."""
    parts = _NAME.split((files(package) / path).read_text(encoding="utf-8"))[1:]
    # Text after the last semicolon is a heading for the statements after it.
    return {name: body[: body.rindex(";")] for name, body in zip(parts[::2], parts[1::2], strict=True)}


_read = partial(read_statements, __package__)


@cache
def load_conditions(dialect: str) -> Mapping[str, str]:
    """Return the conditions and spellings of a dialect by name."""
    own = _read(f"{dialect}/spellings.sql") | _read(f"{dialect}/conditions.sql")
    return MappingProxyType(own | _fill_spellings("conditions.sql", dialect))


@cache
def load_queries(dialect: str) -> Mapping[str, str]:
    """Return the statements of ``queries.sql`` and ``<dialect>/queries.sql`` by name."""
    return MappingProxyType(_fill_spellings("queries.sql", dialect) | _read(f"{dialect}/queries.sql"))


def _fill_spellings(path: str, dialect: str) -> dict[str, str]:
    spellings = _read(f"{dialect}/spellings.sql")
    return {
        name: _PLACEHOLDER.sub(lambda match: spellings[match[1]].format(match[2]), text)
        for name, text in _read(path).items()
    }


@cache
def load_migrations(dialect: str) -> Mapping[int, str]:
    """Return the migration scripts of a dialect by number, in order, without gaps."""
    scripts = {
        int(match[1]): entry.read_text(encoding="utf-8")
        for entry in (files(__package__) / dialect).iterdir()
        if (match := _MIGRATION.match(entry.name))
    }
    numbers = sorted(scripts)
    assert numbers == list(range(1, len(numbers) + 1)), "migrations are numbered 1, 2, 3, ..."
    return MappingProxyType({number: scripts[number] for number in numbers})
