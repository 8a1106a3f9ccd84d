"""SQL conditions for queries; each begins with the user."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jiyi.clock import to_micros
from jiyi.records import SEARCHABLE, Kind, Query, path_of
from jiyi.storage.database import Dialect
from jiyi.storage.relational.filters import DocumentFilter, TaskFilter
from jiyi.storage.rows import is_storable
from jiyi.text.keys import entity_key, predicate_key

__all__ = ["DOCUMENT_ONLY", "TASK_ONLY", "Conditions", "Where", "document_conditions", "kind_conditions"]

Conditions = tuple[str, dict[str, Any]]
"""A WHERE clause and the values of its named parameters."""

DOCUMENT_ONLY = (
    *("roles", "where", "after_seq", "before_seq", "stretches", "after", "target", "consolidated"),
    *("entity", "subject", "predicate", "as_of", "fact_status", "sources", "namespace"),
)
"""Conditions of a query that apply only to documents."""

TASK_ONLY = ("task_id", "status")
"""Conditions of a query that apply only to tasks and steps."""

_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("since", "until", "as_of", "there_at"), to_micros),
    **dict.fromkeys(("entity", "subject", "target"), entity_key),
    "predicate": lambda given: [predicate_key(p) for p in ((given,) if isinstance(given, str) else given)],
}
"""Functions that convert values of a query to what columns hold."""


class Where:
    """Builds the conditions of a query on rows of one kind, from ``sql/conditions.sql``."""

    def __init__(self, of: str, query: Query, dialect: Dialect, *, aside: str = "") -> None:
        self.query = query
        self.dialect = dialect
        self.aside = aside  # prefix of columns whose index must not be used
        self._of = of
        self.parts = [self.fragment("user")]
        self.values: dict[str, Any] = {"user_id": query.scope.user_id}

    def fragment(self, part: str, **words: str) -> str:
        """Return the SQL of a condition."""
        text = self.dialect.fragments[f"{self._of}_{part}"]
        return text.format(aside=self.aside, **words) if "{" in text else text

    def add(self, condition: str, **values: object) -> None:
        """Add a condition and the values of its parameters."""
        self.parts.append(condition)
        for name, value in values.items():
            self.values[name] = self.dialect.array(value) if isinstance(value, list | tuple) else value

    def add_from_query(self, *parts: str, suffix: str = "") -> None:
        """Add the conditions of those query fields that are set; ``suffix`` selects other fragments."""
        for part in parts:
            source = self.query.scope if part in ("agent_id", "session_id") else self.query
            value = getattr(source, part)
            if value is not None and (value or part != "without"):
                self.add(
                    self.fragment(part + suffix),
                    **{part: _CONVERTERS[part](value) if part in _CONVERTERS else value},
                )

    def boolean(self, value: bool) -> str:
        """Return a boolean constant in the dialect."""
        return self.dialect.fragments["yes" if value else "no"]

    def add_cursor(self, moment: str, id_: str) -> None:
        """Add the condition that a row comes after the query's cursor; the columns are those it sorts by."""
        if self.query.after is not None:
            time, last = self.query.after
            sign = "<" if self.query.newest_first else ">"
            self.add(f"({moment}, {id_}) {sign} (:after_moment, :after_id)", after_moment=time, after_id=last)

    def reject_foreign(self, known: Sequence[str] = ()) -> None:
        """Match nothing if the query has conditions for other kinds only; ``known`` ones apply here too."""
        foreign = {*DOCUMENT_ONLY, *TASK_ONLY}.difference(known)
        if self.query.pinned or any(getattr(self.query, name) is not None for name in foreign):
            self.add(self.boolean(False))

    def one_of(self, column: str, names: Sequence[str]) -> str:
        """Return a comparison with constants, without which SQLite cannot use a partial index.

        The names come from the fixed lists that `Query` checks against, never from a caller's text.
        """
        if not names:
            return self.boolean(False)
        if len(names) == 1:
            return f"{column} = '{names[0]}'"
        return f"{column} IN ({', '.join(repr(name) for name in names)})"

    def build(self) -> Conditions:
        """Return the conditions and their values."""
        return " AND ".join(self.parts), self.values


def kind_conditions(kind: Kind, query: Query, dialect: Dialect) -> Conditions:
    """Return the conditions for one kind of record, with the table alias of its statements."""
    if kind in SEARCHABLE:
        return document_conditions(query, dialect, (kind,))
    if kind == "summary":
        return _summary_conditions(query, dialect)
    if kind == "session":
        return _session_conditions(query, dialect)
    return _task_conditions(kind, query, dialect)


def document_conditions(query: Query, dialect: Dialect, kinds: Sequence[Kind] = ()) -> Conditions:
    """Return the conditions of a query on ``documents AS d``; ``kinds`` replace those of the query."""
    # A condition with its own index (so has one predicate) must not let SQLite scan all records.
    few = bool(query.sources or query.target or query.entity or query.subject or query.namespace)
    aside = dialect.fragments["aside"] if few or isinstance(query.predicate, str) else ""
    # Each of the stretches names the user itself.
    aside_user = aside if query.stretches is None else dialect.fragments["aside"]
    where = Where("document", query, dialect, aside=aside_user)
    kinds = [kind for kind in kinds or query.kinds if kind in SEARCHABLE]
    if set(kinds) != set(SEARCHABLE):
        # Pinned records are few, too, and have an index by user.
        where.add(where.one_of(f"{dialect.fragments['aside'] if query.pinned else aside}d.kind", kinds))
    where.add_from_query("agent_id", "session_id", "ids", "without")
    if query.roles is not None:
        where.add(where.one_of("d.role", query.roles))
    where.add_from_query("since", "until")
    where.add_cursor("i.updated_at" if kinds == ["item"] else "d.created_at", "d.id")
    if query.pinned is not None:
        where.add(f"d.pinned = {where.boolean(query.pinned)}")
    if query.where is not None:
        where.add(DocumentFilter(dialect, where.values).sql(query.where))
    where.add_from_query("after_seq", "before_seq")
    _add_stretches(where)
    where.add_from_query("task_id", "status", "sources")
    where.add_from_query("target", suffix="" if query.target else "_none")  # many may have no target
    if query.consolidated is not None:
        where.add(where.fragment("consolidated", flag=where.boolean(query.consolidated)))
    where.add_from_query("entity", "subject")
    where.add_from_query("predicate", suffix="_of_few" if few else "")
    if query.fact_status is not None:
        where.add(where.fragment("fact_status", one_of=where.one_of("f.status", query.fact_status)))
    where.add_from_query("as_of")
    if query.namespace:
        path = path_of(query.namespace)
        where.add(where.fragment("namespace"), path=path, path_end=path[:-1] + chr(ord("/") + 1))
    elif query.namespace is not None:
        where.add("d.kind = 'item'")
    where.add_from_query("there_at")
    return where.build()


def _add_stretches(where: Where) -> None:
    if where.query.stretches is None:
        return
    parts = []
    for number, (session, first, last) in enumerate(where.query.stretches):
        names = (f"in_{number}", f"from_{number}", f"to_{number}")
        if is_storable(session):  # otherwise no session has this id
            place = "d.session_id = :{} AND d.seq BETWEEN :{} AND :{}".format(*names)
            parts.append(f"(d.{where.dialect.fragments['user']} = :user_id AND {place})")
            where.values |= dict(zip(names, (session, first, last), strict=True))
    where.add(f"({' OR '.join(parts or [where.boolean(False)])})")  # only messages have a place


def _summary_conditions(query: Query, dialect: Dialect) -> Conditions:
    # If few are named, SQLite must not scan all of a session or of a user.
    aside = dialect.fragments["aside"]
    where = Where("summary", query, dialect, aside="" if query.sources is None else aside)
    where.aside = "" if query.sources is None and query.ids is None else aside
    where.add_from_query("session_id", "agent_id", "ids", "without", "sources", "since", "until")
    where.reject_foreign(known=("sources",))
    return where.build()


def _session_conditions(query: Query, dialect: Dialect) -> Conditions:
    where = Where("session", query, dialect)
    where.add_from_query("session_id", "agent_id", "ids", "without", "since", "until")
    where.add_cursor("s.started_at", "s.session_id")
    where.reject_foreign(known=("after",))
    return where.build()


def _task_conditions(kind: Kind, query: Query, dialect: Dialect) -> Conditions:
    where = Where(kind, query, dialect)
    where.add_from_query("agent_id", "session_id", "status", "task_id", "ids", "without", "since", "until")
    if kind == "task":
        where.add_cursor("t.started_at", "t.id")
        if query.where is not None:
            where.add(TaskFilter(dialect, where.values).sql(query.where))
    where.reject_foreign(known=(*TASK_ONLY, "after", "where") if kind == "task" else TASK_ONLY)
    return where.build()
