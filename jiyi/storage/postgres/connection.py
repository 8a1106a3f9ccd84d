"""Named statements on one connection to PostgreSQL."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from psycopg import Copy

from jiyi.records import Kind
from jiyi.storage.damage import Damage
from jiyi.storage.database import Answer, Call, Dialect, Values
from jiyi.storage.postgres.statements import named, storable
from jiyi.storage.postgres.transaction import Ask, Channel, Cursor, Writing
from jiyi.storage.rows import Row, is_storable

__all__ = ["DOCUMENT_COLUMNS", "POSTGRES", "PostgresConnection"]

# jsonb takes no zero byte and no half of a surrogate pair, which the words of a message may hold: they
# are left out here. Escaped backslashes stand aside meanwhile as a character that no JSON text holds.
_READABLE = (
    r"CASE WHEN strpos({body}, '\u') = 0 THEN {body} "
    r"ELSE replace(regexp_replace(replace({body}, '\\', chr(1)), "
    r"'\\u0000|\\ud[89ab][0-9a-f]{{2}}(?!\\ud[c-f])"
    r"|(?<!\\ud[89ab][0-9a-f]{{2}})\\ud[c-f][0-9a-f]{{2}}', '', 'g'), chr(1), '\\') END"
)


def _inside(body: str, keys: Sequence[str], test: str) -> str:
    """See `Dialect.inside`."""
    found = f"({_READABLE.format(body=body)})::jsonb -> 'value'" + "".join(
        f" -> :{key}::text" for key in keys
    )
    return f"EXISTS (SELECT 1 FROM (SELECT {found} AS value) AS e WHERE e.value IS NOT NULL AND {test})"


POSTGRES = Dialect(
    user="tenant_id",
    among="{column} = ANY(:{name})",
    # What cannot be stored is nowhere, and PostgreSQL takes no text with a zero byte.
    listed=lambda values: [value for value in values if not isinstance(value, str) or is_storable(value)],
    owned="{alias}.tenant_id = :user_id",
    same="{alias}.tenant_id = :user_id AND {alias}.doc = d.doc",
    yes="true",
    no="false",
    aside="",
    kept="d.{column}",
    json_text=f"(({_READABLE})::jsonb ->> '{{name}}') COLLATE \"C\"",
    label=(
        "CASE WHEN {body} LIKE '%\"metadata\":{{%' THEN EXISTS (SELECT 1 FROM "
        f"(SELECT ({_READABLE})::jsonb -> 'metadata' -> :{{key}}::text AS value) AS e "
        "WHERE e.value IS NOT NULL AND {test}) ELSE false END"
    ),
    inside=_inside,
    label_in="EXISTS (SELECT 1 FROM jsonb_array_elements(:{value}::jsonb) AS w WHERE w.value = e.value)",
    label_number="jsonb_typeof(e.value) = 'number' AND e.value {sign} to_jsonb(:{value})",
    label_text="jsonb_typeof(e.value) = 'string' AND {test}",
    label_words="(e.value #>> '{}') COLLATE \"C\"",
    holds="strpos({text}, :{value}) > 0",
)

_BULK = 100  # documents from which on a COPY is quicker than one INSERT each
DOCUMENT_COLUMNS = {
    "user_id": "text",
    "doc": "int8",
    "kind": "text",
    "id": "text",
    "agent_id": "text",
    "session_id": "text",
    "role": "text",
    "seq": "int8",
    "created_at": "int8",
    "pinned": "bool",
    "has_text": "bool",
    "length": "int4",
    "traits": "int4",
    "speaker": "text",
    "entry": "bytea",
    "importance": "float8",
    "tokens": "int8",
    "tokens_by": "text",
    "body": "text",
}
"""Columns of a staged document and their types, in the order in which they are copied."""
_STAGES = {"staged": "stage_documents", "staged_vectors": "stage_vectors"}
_MESSAGE_ONLY = dict.fromkeys(("importance", "tokens", "tokens_by"))


class PostgresConnection:
    """`jiyi.storage.database.Connection` for one user, or for what concerns all."""

    dialect = POSTGRES

    def __init__(
        self,
        channel: Channel,
        user_id: str | None,
        damage: Damage,
        *,
        writes: bool = False,
        bulk: bool = False,
    ) -> None:
        """Speak for one user, or for all.

        Args:
            channel: where statements go.
            user_id: whose rows they concern.
            damage: takes in the rows that cannot be read.
            writes: it is for writing: nobody else may come between what it reads and writes.
            bulk: many documents may go in by way of a table of the transaction's own.
        """
        self._channel = channel
        self._user_id = user_id
        self.damage = damage
        self._to_lock = writes and user_id is None
        self._bulk = bulk

    @property
    def in_transaction(self) -> bool:
        """See `Connection.in_transaction`."""
        return self._channel.in_transaction

    def rows(self, name: str, values: Values, **parts: str) -> list[tuple[Any, ...]]:
        """See `Connection.rows`."""
        return self._ask(name, values, parts).fetchall()

    def rows_with(
        self, settings: Sequence[tuple[str, str]], name: str, values: Values, **parts: str
    ) -> list[tuple[Any, ...]]:
        """Run a statement that only looks, under settings of the server, and return its rows."""
        ask = replace(self._of(named(name, **parts), values), settings=settings)
        return self._channel.ask(ask).fetchall()

    def records(self, name: str, values: Values, **parts: str) -> list[Row]:
        """See `Connection.records`."""
        return self.all_of([Call(name, values, parts)])[0].records()

    def all_of(self, calls: Sequence[Call]) -> list[Answer]:
        """See `Connection.all_of`."""
        asks = [self._of(named(call.name, **call.parts), call.values) for call in calls]
        return [
            Answer([column.name for column in cursor.description or ()], cursor.fetchall())
            for cursor in self._channel.ask_all(asks)
        ]

    def first(self, name: str, values: Values, **parts: str) -> tuple[Any, ...] | None:
        """See `Connection.first`."""
        return self._ask(name, values, parts).fetchone()

    def run(self, name: str, values: Values, **parts: str) -> None:
        """See `Connection.run`; in a transaction it goes with the next statement that has a result."""
        self._channel.tell(self._of(named(name, **parts), values))

    def many(self, name: str, values: Iterable[Values]) -> None:
        """See `Connection.many`."""
        statement = named(name)
        for each in values:
            self._channel.tell(self._of(statement, each))

    def take_numbers(self, user_id: str, count: int) -> int:
        """See `Connection.take_numbers`."""
        return self._transaction.take_numbers(user_id, count)

    def add_documents(self, kind: Kind, rows: Sequence[Row]) -> None:
        """See `Connection.add_documents`."""
        whole = rows if kind == "message" else [_MESSAGE_ONLY | row for row in rows]
        if len(rows) >= _BULK and self._bulk:
            self._copy_documents(whole)
        else:
            self.many("add_document", whole)
            self.many("add_pending", [row for row in rows if row["vector_state"] == "pending"])
        if kind != "message":
            self.many(f"put_{kind}", rows)

    def add_vectors(self, rows: Sequence[Row]) -> None:
        """Write vectors of one user; each row has the parameters of ``add_vector``."""
        if len(rows) < _BULK or not self._bulk:
            self.many("add_vector", rows)
            return
        columns = ("user_id", "doc", "space", "part", "kind", "vector")
        with self._staged(rows[0]["user_id"], "staged_vectors") as copy:
            for row in rows:
                copy.write_row([row[name] for name in columns])
        for name in ("add_staged_vectors", "drop_staged_vectors"):
            self.run(name, rows[0])

    def _copy_documents(self, rows: Sequence[Row]) -> None:
        with self._staged(rows[0]["user_id"], "staged") as copy:
            copy.set_types(list(DOCUMENT_COLUMNS.values()))
            for row in rows:
                copy.write_row(_as_copied(row))
        for name in ("add_staged", "add_staged_pending", "drop_staged"):
            self.run(name, rows[0])

    @contextmanager
    def _staged(self, user_id: str, table: str) -> Iterator[Copy]:
        """Make a table of the transaction's own and give what fills it."""
        self.run(_STAGES[table], {"user_id": user_id})
        raw = self._transaction.at_once(user_id)
        with raw.cursor() as cursor, cursor.copy(named(f"copy_{table}")) as copy:
            yield copy

    @property
    def _transaction(self) -> Writing:
        assert isinstance(self._channel, Writing), "rows are written in a transaction"
        return self._channel

    def _ask(self, name: str, values: Values, parts: dict[str, str]) -> Cursor:
        return self._channel.ask(self._of(named(name, **parts), values))

    def _of(self, statement: str, values: Values) -> Ask:
        if self._to_lock:
            self._to_lock = False
            self._transaction.lock_all()
        return Ask(user_id=self._user_id, statement=statement, values=dict(values))


def _as_copied(row: Row) -> list[Any]:
    more = {
        "pinned": bool(row["pinned"]),
        "has_text": row["vector_state"] != "none",
        "speaker": storable(row["speaker"]),
    }
    whole = row | more
    return [whole.get(name) for name in DOCUMENT_COLUMNS]
