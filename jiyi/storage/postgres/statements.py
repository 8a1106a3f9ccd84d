"""Named statements in psycopg's syntax, settings of a transaction, and adapters for values."""

import re
from collections.abc import Sequence
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
from jiyi.storage.search.postings import storable
from jiyi.storage.sql import load_conditions, load_queries

Statement = tuple[str, dict[str, Any] | None]
"""A statement in psycopg's syntax and its values."""

_COMMENT = re.compile(r"^[ \t]*--.*\n", re.MULTILINE)
_NAMED = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")

SQL = {name: _COMMENT.sub("", text + "\n").strip() for name, text in load_queries("postgres").items()}
"""The statements of ``queries.sql`` by name, without comments."""


def get_statement(name: str, **parts: str) -> str:
    """Return a statement of ``queries.sql`` by name; ``parts`` replace its placeholders in braces."""
    return to_psycopg(SQL[name].format(**parts) if parts else SQL[name])


@lru_cache(maxsize=1_024)
def to_psycopg(text: str) -> str:
    """Convert the parameters ``:name`` of a statement to psycopg's syntax."""
    return _NAMED.sub(r"%(\1)s", text.replace("%", "%%"))


_CONDITIONS = dict(load_conditions("postgres"))
_READABLE = _CONDITIONS.pop("readable")


def _json_path(body: str, keys: Sequence[str], test: str) -> str:
    path = "".join(f" -> :{key}::text" for key in keys)
    found = f"({_READABLE.format(body=body)})::jsonb -> 'value'{path}"
    return f"EXISTS (SELECT 1 FROM (SELECT {found} AS value) AS e WHERE e.value IS NOT NULL AND {test})"


POSTGRES = Dialect(
    fragments={name: text.replace("@readable", _READABLE) for name, text in _CONDITIONS.items()},
    # Ids that cannot be stored match nothing, and PostgreSQL takes no text with a zero byte.
    array=lambda values: [value for value in values if not isinstance(value, str) or is_storable(value)],
    json_path=_json_path,
    remote=True,
)

# It divides by zero once the database is a cluster's coordinator, because these settings would not reach
# the machines with the rows, and no row would be visible. `BECAME_CLUSTER` is that error.
_PRELUDE = (
    "SELECT {}, set_config('jit', 'off', true), "
    "1 / (SELECT 1 - count(*) FROM pg_extension WHERE extname = 'citus')"
)
BECAME_CLUSTER = pg.DivisionByZero
_NAMES = ("jiyi.tenant", "jiyi.every_tenant")
_TENANT = [f"set_config('{name}', :{name.partition('.')[2]}, true)" for name in _NAMES]
_IDLE_LEAST = 60_000  # milliseconds

GENERIC_PLAN = frozenset({"get_owner", "all_meta", "read_terms", "vectors_after", "vectors_of_docs"})
"""Statements with one good plan for all values, for which planning each time takes longer than running."""


@lru_cache(maxsize=64)
def _prelude(settings: tuple[tuple[str, str], ...]) -> str:
    values = [f"set_config('{name}', '{value}', true)" for name, value in settings]
    return to_psycopg(_PRELUDE.format(", ".join([*_TENANT, *values])))


def set_tenant(
    user_id: str | None, timeouts: tuple[int, int], *, single_node: bool = True, generic_plan: bool = False
) -> list[Statement]:
    """Return what makes a transaction see one user's rows; None is for what looks at all users.

    ``timeouts`` are milliseconds for a statement and for a lock; with ``generic_plan`` all its statements
    are in `GENERIC_PLAN`. ``single_node``: the database is on one machine; where it is not any more, the
    server answers with `BECAME_CLUSTER`. On several a function would not reach the others: settings that
    they must know are then written out.
    """
    tenant = {"tenant": user_id or "", "every_tenant": "on" if user_id is None else "off"}
    statement, lock = timeouts
    limits = (
        ("statement_timeout", f"{statement}"),
        ("lock_timeout", f"{lock}"),
        # A silent client must not hold its lock until the TCP timeout.
        ("idle_in_transaction_session_timeout", f"{max(_IDLE_LEAST, 2 * statement)}"),
    )
    if single_node:
        plans = ("plan_cache_mode", "force_generic_plan" if generic_plan else "auto")
        return [(_prelude((*limits, plans)), tenant)]
    settings = [*zip(_NAMES, tenant.values(), strict=True), *limits]
    propagate = ("SET LOCAL citus.propagate_set_commands TO 'local'", None)
    return [propagate, *set_local(settings, single_node=False)]


def set_local(settings: Sequence[tuple[str, str]], *, single_node: bool) -> list[Statement]:
    """Return the statements that set the server's settings until the transaction ends; see `set_tenant`."""
    if single_node:
        words = to_psycopg("SELECT set_config(:name, :value, true)")
        return [(words, {"name": name, "value": value}) for name, value in settings]
    assign = sql.SQL("SET LOCAL {} TO {}").format
    written = [assign(sql.Identifier(*name.split(".")), sql.Literal(value)) for name, value in settings]
    return [(words.as_string(None), None) for words in written]


class _Text(StrDumperUnknown):
    """Passes texts through `storable`."""

    def dump(self, obj: str) -> Any:
        return super().dump(storable(obj))


class _Halves(Dumper):
    """Writes a vector in pgvector's binary form: two bytes of dimensions, two zero bytes, the numbers.

    The statement casts it to halfvec.
    """

    format = Format.BINARY

    def dump(self, obj: NDArray[np.float16]) -> bytes:
        return len(obj).to_bytes(2, "big") + b"\0\0" + obj.astype(">f2").tobytes()


class Adapters:
    """How Python values are passed: integers always as bigint, so that statements stay the same."""

    connection = None

    def __init__(self) -> None:
        self.adapters = AdaptersMap(psycopg.adapters)
        self.adapters.register_dumper(int, Int8BinaryDumper)
        self.adapters.register_dumper(str, _Text)
        self.adapters.register_dumper(np.ndarray, _Halves)
