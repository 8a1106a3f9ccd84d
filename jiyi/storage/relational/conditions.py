"""Queries to SQL conditions: every condition begins with the user."""

from collections.abc import Sequence
from typing import Any

from jiyi.clock import to_micros
from jiyi.records import SEARCHABLE, Kind, Query, path_of
from jiyi.storage.database import Dialect
from jiyi.storage.relational.filters import OfDocuments, OfTasks
from jiyi.storage.rows import is_storable
from jiyi.text.keys import entity_key, predicate_key

__all__ = ["OF_DOCUMENTS", "OF_TASKS", "Conditions", "Where", "on_documents", "on_kind"]

Conditions = tuple[str, dict[str, Any]]
"""A WHERE clause and the values of its named parameters."""

OF_DOCUMENTS = (
    "roles",
    "where",
    "after_seq",
    "before_seq",
    "stretches",
    "after",
    "target",
    "consolidated",
    "entity",
    "subject",
    "predicate",
    "as_of",
    "fact_status",
    "sources",
    "namespace",
)
"""Conditions of a query that only documents have."""

OF_TASKS = ("task_id", "status")
"""And those that only tasks and steps have."""


class Where:
    """The conditions of a query, as they grow; the first is the user."""

    def __init__(self, query: Query, dialect: Dialect, alias: str, *, aside: str = "") -> None:
        self.query = query
        self.dialect = dialect
        self.parts = [f"{aside}{alias}.{dialect.user} = :user_id"]
        self.values: dict[str, Any] = {"user_id": query.scope.user_id}

    def add(self, condition: str, **values: object) -> None:
        """Add a condition and the values of its parameters."""
        self.parts.append(condition)
        self.values.update(values)

    def equal(self, prefix: str, **columns: object) -> None:
        """Ask for the values of columns, as far as they are given."""
        for name, value in columns.items():
            if value is not None:
                self.add(f"{prefix}{name} = :{name}", **{name: value})

    def among(self, column: str, name: str, values: Sequence[Any]) -> str:
        """Return the condition that a column is one of these values, and keep them."""
        self.values[name] = self.dialect.listed(values)
        return self.dialect.among.format(column=column, name=name)

    def exists(self, table: str, alias: str, condition: str, **values: object) -> None:
        """Ask for a row of another table that belongs to that of documents AS d."""
        same = self.dialect.same.format(alias=alias)
        self.add(f"EXISTS (SELECT 1 FROM {table} AS {alias} WHERE {same} AND {condition})", **values)

    def owned(self, alias: str) -> str:
        """Return the condition that a row of another table belongs to the user."""
        return self.dialect.owned.format(alias=alias)

    def flag(self, value: bool) -> str:
        """Return a flag as the dialect writes it."""
        return self.dialect.yes if value else self.dialect.no

    def ids(self, column: str) -> None:
        """Ask for the ids of the query and for none of those it does without."""
        if self.query.ids is not None:
            self.add(self.among(column, "ids", self.query.ids))
        if self.query.without:
            self.add(f"NOT ({self.among(column, 'without', self.query.without)})")

    def times(self, column: str) -> None:
        """Ask for the times of the query."""
        for name, sign in (("since", ">="), ("until", "<")):
            if (moment := getattr(self.query, name)) is not None:
                self.add(f"{column} {sign} :{name}", **{name: to_micros(moment)})

    def follows(self, moment: str, id_: str) -> None:
        """Ask for what follows in a list on the place the query names, given the columns it is sorted by."""
        if self.query.after is not None:
            time, last = self.query.after
            sign = "<" if self.query.newest_first else ">"
            self.add(f"({moment}, {id_}) {sign} (:after_moment, :after_id)", after_moment=time, after_id=last)

    def nothing_foreign(self, known: Sequence[str] = ()) -> None:
        """Find nothing where the query has conditions of other kinds; ``known`` count here too."""
        foreign = {*OF_DOCUMENTS, *OF_TASKS}.difference(known)
        if self.query.pinned or any(getattr(self.query, name) is not None for name in foreign):
            self.add(self.dialect.no)

    def done(self) -> Conditions:
        """Return what was asked."""
        return " AND ".join(self.parts), self.values


def on_kind(kind: Kind, query: Query, dialect: Dialect) -> Conditions:
    """Return the conditions for one kind of record, under the alias its statements use."""
    if kind in SEARCHABLE:
        return on_documents(query, dialect, (kind,))
    if kind == "summary":
        return _on_summary(query, dialect)
    return _on_session(query, dialect) if kind == "session" else _on_task(kind, query, dialect)


def on_documents(query: Query, dialect: Dialect, kinds: Sequence[Kind] = ()) -> Conditions:
    """Return the conditions of a query on ``documents AS d``; ``kinds`` for others than the query's."""
    # All records of a user and a kind must not be walked where few are named.
    aside = dialect.aside if _leads(query) else ""
    aside_user = aside if query.stretches is None else dialect.aside  # each stretch names the user
    where = Where(query, dialect, "d", aside=aside_user)
    kinds = [kind for kind in kinds or query.kinds if kind in SEARCHABLE]
    if set(kinds) != set(SEARCHABLE):
        where.add(_one_of(dialect, f"{aside}d.kind", kinds))
    where.equal("d.", agent_id=query.scope.agent_id, session_id=query.scope.session_id)
    where.ids("d.id")
    if query.roles is not None:
        where.add(_one_of(dialect, "d.role", query.roles))
    where.times("d.created_at")
    where.follows("i.updated_at" if kinds == ["item"] else "d.created_at", "d.id")
    if query.pinned is not None:
        where.add(f"d.pinned = {where.flag(query.pinned)}")
    if query.where is not None:
        where.add(OfDocuments(dialect, where.values).sql(query.where))
    for name, sign in (("after_seq", ">"), ("before_seq", "<")):
        if (seq := getattr(query, name)) is not None:
            where.add(f"d.seq {sign} :{name}", **{name: seq})
    _add_stretches(where)
    if query.task_id is not None:
        where.exists("episodes", "o", "o.task_id = :task_id", task_id=query.task_id)
    if query.status is not None:
        where.add(dialect.no)
    if query.sources is not None:
        among = where.among("s.source", "sources", query.sources)
        where.add(f"d.doc IN (SELECT s.doc FROM sources AS s WHERE {where.owned('s')} AND {among})")
    _add_episodes(where)
    _add_facts(where)
    _add_items(where)
    return where.done()


def _leads(query: Query) -> bool:
    """Say whether the query has a condition that an index of its own answers."""
    return bool(query.sources or query.target or query.entity or query.subject or query.namespace)


def _add_stretches(where: Where) -> None:
    if where.query.stretches is None:
        return
    parts = []
    for number, (session, first, last) in enumerate(where.query.stretches):
        names = (f"in_{number}", f"from_{number}", f"to_{number}")
        if is_storable(session):  # else no session can have this id
            place = "d.session_id = :{} AND d.seq BETWEEN :{} AND :{}".format(*names)
            parts.append(f"(d.{where.dialect.user} = :user_id AND {place})")
            where.values |= dict(zip(names, (session, first, last), strict=True))
    where.add(f"({' OR '.join(parts or [where.dialect.no])})")  # only messages have a place


def _add_episodes(where: Where) -> None:
    query = where.query
    if query.target:
        flags = f"{where.dialect.no}, {where.dialect.yes}"
        where.add(
            f"d.doc IN (SELECT e.doc FROM episodes AS e WHERE {where.owned('e')} "
            f"AND e.consolidated IN ({flags}) AND e.target_key = :target_key)",
            target_key=entity_key(query.target),
        )
    elif query.target is not None:  # many may be about nothing
        where.exists("episodes", "e", "e.target_key = ''")
    if query.consolidated is not None:
        where.exists("episodes", "e", f"e.consolidated = {where.flag(query.consolidated)}")


def _add_facts(where: Where) -> None:
    query = where.query
    owned = f"SELECT f.doc FROM facts AS f WHERE {where.owned('f')}"
    if query.entity is not None:  # two questions: for an OR SQLite would read all facts of the user
        halves = (f"{owned} AND f.{column} = :entity" for column in ("subject_key", "object_key"))
        where.add(f"d.doc IN ({' UNION ALL '.join(halves)})", entity=entity_key(query.entity))
    if query.subject is not None:
        where.add(f"d.doc IN ({owned} AND f.subject_key = :subject)", subject=entity_key(query.subject))
    if query.predicate is not None:
        points = (query.predicate,) if isinstance(query.predicate, str) else query.predicate
        point = where.among("f.predicate_key", "predicates", [predicate_key(one) for one in points])
        if _leads(query):
            where.exists("facts", "f", point)
        else:
            where.add(f"d.doc IN ({owned} AND {point})")
    if query.fact_status is not None:
        where.exists("facts", "f", _one_of(where.dialect, "f.status", query.fact_status))
    if query.as_of is not None:
        valid = (
            "f.status != 'retracted' AND coalesce(f.valid_from, d.created_at) <= :as_of "
            "AND (f.valid_to IS NULL OR f.valid_to > :as_of)"
        )
        where.exists("facts", "f", valid, as_of=to_micros(query.as_of))


def _add_items(where: Where) -> None:
    query = where.query
    owned = f"SELECT i.doc FROM items AS i WHERE {where.owned('i')}"
    if query.namespace:
        path = path_of(query.namespace)
        where.add(
            f"d.doc IN ({owned} AND i.path >= :path AND i.path < :path_end)",
            path=path,
            path_end=path[:-1] + chr(ord("/") + 1),
        )
    elif query.namespace is not None:
        where.add("d.kind = 'item'")
    if query.there_at is not None:
        gone = f"{owned} AND i.expires_at <= :there_at"
        where.add(f"d.doc NOT IN ({gone})", there_at=to_micros(query.there_at))


def _one_of(dialect: Dialect, column: str, names: Sequence[str]) -> str:
    """Compare with constants: only so can SQLite use an index that covers one kind or role.

    The names come from the fixed lists that `Query` checks against, never from a caller's text.
    """
    if not names:
        return dialect.no
    if len(names) == 1:
        return f"{column} = '{names[0]}'"
    return f"{column} IN ({', '.join(repr(name) for name in names)})"


def _on_summary(query: Query, dialect: Dialect) -> Conditions:
    # All of a session, or of a user, must not be walked where few are named.
    aside = "" if query.sources is None and query.ids is None else dialect.aside
    where = Where(query, dialect, "s", aside="" if query.sources is None else dialect.aside)
    where.equal(f"{aside}s.", session_id=query.scope.session_id, agent_id=query.scope.agent_id)
    where.ids("s.id")
    if query.sources is not None:
        among = where.among("c.message", "sources", query.sources)
        where.add(f"s.entry IN (SELECT c.entry FROM covered AS c WHERE {where.owned('c')} AND {among})")
    where.times("s.created_at")
    where.nothing_foreign(known=("sources",))
    return where.done()


def _on_session(query: Query, dialect: Dialect) -> Conditions:
    where = Where(query, dialect, "s")
    where.equal("s.", session_id=query.scope.session_id)
    if query.scope.agent_id is not None:
        where.add(
            f"EXISTS (SELECT 1 FROM documents AS d WHERE d.{dialect.user} = :user_id "
            "AND d.kind = 'message' AND d.session_id = s.session_id AND d.agent_id = :agent_id)",
            agent_id=query.scope.agent_id,
        )
    where.ids("s.session_id")
    where.times("s.started_at")
    where.follows("s.started_at", "s.session_id")
    where.nothing_foreign(known=("after",))
    return where.done()


def _on_task(kind: Kind, query: Query, dialect: Dialect) -> Conditions:
    where = Where(query, dialect, "t")
    scope = query.scope
    where.equal("t.", agent_id=scope.agent_id, session_id=scope.session_id, status=query.status)
    if query.task_id is not None:
        where.add(f"{'s.task_id' if kind == 'step' else 't.id'} = :task_id", task_id=query.task_id)
    where.ids("s.id" if kind == "step" else "t.id")
    where.times("t.started_at")
    if kind == "task":
        where.follows("t.started_at", "t.id")
        if query.where is not None:
            where.add(OfTasks(dialect, where.values).sql(query.where))
    where.nothing_foreign(known=(*OF_TASKS, "after", "where") if kind == "task" else OF_TASKS)
    return where.done()
