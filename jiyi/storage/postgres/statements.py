"""Named statements as psycopg takes them, and the values that go with them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import errors as pg
from psycopg import sql
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import StrDumperUnknown

from jiyi.storage.database import Dialect
from jiyi.storage.rows import is_storable
from jiyi.storage.sql import load_conditions, load_queries
from jiyi.storage.words import storable

__all__ = [
    "OUTGROWN",
    "POSTGRES",
    "SQL",
    "STEADY",
    "Adapters",
    "Halves",
    "Statement",
    "converted",
    "named",
    "set_local",
    "set_tenant",
]

Statement = tuple[str, dict[str, Any] | None]
"""A statement as psycopg takes it and its values."""

_COMMENT = re.compile(r"^[ \t]*--.*\n", re.MULTILINE)
_NAMED = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")

SQL = {name: _COMMENT.sub("", text + "\n").strip() for name, text in load_queries("postgres").items()}
"""The statements of ``queries.sql`` by name, without comments."""


def named(name: str, **parts: str) -> str:
    """Return a statement of ``queries.sql`` by name; ``parts`` replace what stands in braces."""
    return converted(SQL[name].format(**parts) if parts else SQL[name])


@lru_cache(maxsize=1_024)
def converted(text: str) -> str:
    """Return a statement with its parameters ``:name`` as psycopg writes them."""
    return _NAMED.sub(r"%(\1)s", text.replace("%", "%%"))


_CONDITIONS = dict(load_conditions("postgres"))
_READABLE = _CONDITIONS.pop("readable")


def _json_path(body: str, keys: Sequence[str], test: str) -> str:
    """See `Dialect.json_path`."""
    found = f"({_READABLE.format(body=body)})::jsonb -> 'value'" + "".join(
        f" -> :{key}::text" for key in keys
    )
    return f"EXISTS (SELECT 1 FROM (SELECT {found} AS value) AS e WHERE e.value IS NOT NULL AND {test})"


POSTGRES = Dialect(
    fragments={name: text.replace("@readable", _READABLE) for name, text in _CONDITIONS.items()},
    # What cannot be stored is nowhere, and PostgreSQL takes no text with a zero byte.
    array=lambda values: [value for value in values if not isinstance(value, str) or is_storable(value)],
    json_path=_json_path,
)

# It divides by zero once the database has become a cluster's coordinator: what is set here would not reach
# the machines that have the rows by then, and none of these would be seen. `OUTGROWN` is that error.
_PRELUDE = (
    "SELECT {}, set_config('jit', 'off', true), "
    "1 / (SELECT 1 - count(*) FROM pg_extension WHERE extname = 'citus')"
)
OUTGROWN = pg.DivisionByZero
_NAMES = ("jiyi.tenant", "jiyi.every_tenant")
_TENANT = [f"set_config('{name}', :{name.partition('.')[2]}, true)" for name in _NAMES]
_IDLE_LEAST = 60_000  # milliseconds

STEADY = frozenset({"get_owner", "all_meta", "read_terms", "new_vectors", "read_vectors"})
"""Statements with one good plan for all values: planning each time would take longer than running them."""


@lru_cache(maxsize=64)
def _prelude(settings: tuple[tuple[str, str], ...]) -> str:
    values = [f"set_config('{name}', '{value}', true)" for name, value in settings]
    return converted(_PRELUDE.format(", ".join([*_TENANT, *values])))


def set_tenant(
    user_id: str | None, timeouts: tuple[int, int], *, plain: bool = True, steady: bool = False
) -> list[Statement]:
    """Return what makes a transaction see one user's rows; None is for what looks at all users.

    Args:
        user_id: whose.
        timeouts: milliseconds for a statement and for a lock.
        plain: whether the database is on one machine; where it is not any more, the server answers
            with `OUTGROWN`. On several, a function would not reach the others: settings that they
            must know are then written out.
        steady: whether all its statements are `STEADY`.
    """
    tenant = {"tenant": user_id or "", "every_tenant": "on" if user_id is None else "off"}
    statement, lock = timeouts
    limits = (
        ("statement_timeout", f"{statement}"),
        ("lock_timeout", f"{lock}"),
        # A client that fell silent in the middle must not hold its lock until TCP gives it up.
        ("idle_in_transaction_session_timeout", f"{max(_IDLE_LEAST, 2 * statement)}"),
    )
    if plain:
        plans = ("plan_cache_mode", "force_generic_plan" if steady else "auto")
        return [(_prelude((*limits, plans)), tenant)]
    settings = [*zip(_NAMES, tenant.values(), strict=True), *limits]
    return [("SET LOCAL citus.propagate_set_commands TO 'local'", None), *set_local(settings, plain=False)]


def set_local(settings: Sequence[tuple[str, str]], *, plain: bool) -> list[Statement]:
    """Return what gives settings of the server values until the transaction ends; see `set_tenant`."""
    if plain:
        words = converted("SELECT set_config(:name, :value, true)")
        return [(words, {"name": name, "value": value}) for name, value in settings]
    written = [
        sql.SQL("SET LOCAL {} TO {}").format(sql.Identifier(*name.split(".")), sql.Literal(value))
        for name, value in settings
    ]
    return [(words.as_string(None), None) for words in written]


class _Text(StrDumperUnknown):
    """Any text, as `storable`."""

    def dump(self, obj: str) -> Any:
        return super().dump(storable(obj))


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """A vector for a parameter that the statement casts to halfvec."""

    numbers: NDArray[np.float16]


class _Halves(Dumper):
    """The binary form of pgvector: two bytes of dimensions, two of nothing, the numbers."""

    format = Format.BINARY

    def dump(self, obj: Halves) -> bytes:
        return len(obj.numbers).to_bytes(2, "big") + b"\0\0" + obj.numbers.astype(">f2").tobytes()


class Adapters:
    """How Python's values are handed over; whole numbers always as bigint: statements stay the same."""

    connection = None

    def __init__(self) -> None:
        self.adapters = AdaptersMap(psycopg.adapters)
        self.adapters.register_dumper(int, Int8BinaryDumper)
        self.adapters.register_dumper(str, _Text)
        self.adapters.register_dumper(Halves, _Halves)
