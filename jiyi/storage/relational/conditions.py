"""Queries to SQL conditions: every condition begins with the user."""

from collections.abc import Callable, Mapping, Sequence
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
    *("roles", "where", "after_seq", "before_seq", "stretches", "after", "target", "consolidated"),
    *("entity", "subject", "predicate", "as_of", "fact_status", "sources", "namespace"),
)
"""Conditions of a query that only documents have."""

OF_TASKS = ("task_id", "status")
"""And those that only tasks and steps have."""


_VALUES: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("since", "until", "as_of", "there_at"), to_micros),
    **dict.fromkeys(("entity", "subject", "target"), entity_key),
    "predicate": lambda given: [predicate_key(p) for p in ((given,) if isinstance(given, str) else given)],
}
"""What parts of a query are compared as, where it is not what they say."""


class Where:
    """The conditions of a query on rows of one sort, as they grow; the first is the user.

    Their words are in ``sql/conditions.sql``.
    """

    def __init__(self, of: str, query: Query, dialect: Dialect, *, aside: str = "") -> None:
        self.query = query
        self.dialect = dialect
        self.aside = aside  # put before columns whose index is not to be used
        self._of = of
        self.parts = [self.word("user")]
        self.values: dict[str, Any] = {"user_id": query.scope.user_id}

    def word(self, part: str, **words: str) -> str:
        """Return the words of a condition."""
        text = self.dialect.words[f"{self._of}_{part}"]
        return text.format(aside=self.aside, **words) if "{" in text else text

    def add(self, condition: str, **values: object) -> None:
        """Add a condition and the values of its parameters."""
        self.parts.append(condition)
        for name, value in values.items():
            self.values[name] = self.dialect.listed(value) if isinstance(value, list | tuple) else value

    def ask(self, *parts: str, suffix: str = "") -> None:
        """Ask for what parts of the query say, as far as they say anything; ``suffix`` names other words."""
        for part in parts:
            of = self.query.scope if part in ("agent_id", "session_id") else self.query
            value = getattr(of, part)
            if value is not None and (value or part != "without"):
                self.add(
                    self.word(part + suffix), **{part: _VALUES[part](value) if part in _VALUES else value}
                )

    def flag(self, value: bool) -> str:
        """Return a flag as the dialect writes it."""
        return self.dialect.words["yes" if value else "no"]

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
            self.add(self.flag(False))

    def one_of(self, column: str, names: Sequence[str]) -> str:
        """Compare with constants: only so can SQLite use an index that covers one kind or role.

        The names come from the fixed lists that `Query` checks against, never from a caller's text.
        """
        if not names:
            return self.flag(False)
        if len(names) == 1:
            return f"{column} = '{names[0]}'"
        return f"{column} IN ({', '.join(repr(name) for name in names)})"

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
    # All records of a user and a kind must not be walked where an index of its own answers a condition.
    few = bool(query.sources or query.target or query.entity or query.subject or query.namespace)
    aside = dialect.words["aside"] if few else ""
    aside_user = aside if query.stretches is None else dialect.words["aside"]  # each stretch names the user
    where = Where("document", query, dialect, aside=aside_user)
    kinds = [kind for kind in kinds or query.kinds if kind in SEARCHABLE]
    if set(kinds) != set(SEARCHABLE):
        # Pinned records are few, too, and their index is the user's.
        where.add(where.one_of(f"{dialect.words['aside'] if few or query.pinned else ''}d.kind", kinds))
    where.ask("agent_id", "session_id", "ids", "without")
    if query.roles is not None:
        where.add(where.one_of("d.role", query.roles))
    where.ask("since", "until")
    where.follows("i.updated_at" if kinds == ["item"] else "d.created_at", "d.id")
    if query.pinned is not None:
        where.add(f"d.pinned = {where.flag(query.pinned)}")
    if query.where is not None:
        where.add(OfDocuments(dialect, where.values).sql(query.where))
    where.ask("after_seq", "before_seq")
    _add_stretches(where)
    where.ask("task_id", "status", "sources")
    where.ask("target", suffix="" if query.target else "_none")  # many may be about nothing
    if query.consolidated is not None:
        where.add(where.word("consolidated", flag=where.flag(query.consolidated)))
    where.ask("entity", "subject")
    where.ask("predicate", suffix="_of_few" if few else "")
    if query.fact_status is not None:
        where.add(where.word("fact_status", one_of=where.one_of("f.status", query.fact_status)))
    where.ask("as_of")
    if query.namespace:
        path = path_of(query.namespace)
        where.add(where.word("namespace"), path=path, path_end=path[:-1] + chr(ord("/") + 1))
    elif query.namespace is not None:
        where.add("d.kind = 'item'")
    where.ask("there_at")
    return where.done()


def _add_stretches(where: Where) -> None:
    if where.query.stretches is None:
        return
    parts = []
    for number, (session, first, last) in enumerate(where.query.stretches):
        names = (f"in_{number}", f"from_{number}", f"to_{number}")
        if is_storable(session):  # else no session can have this id
            place = "d.session_id = :{} AND d.seq BETWEEN :{} AND :{}".format(*names)
            parts.append(f"(d.{where.dialect.words['user']} = :user_id AND {place})")
            where.values |= dict(zip(names, (session, first, last), strict=True))
    where.add(f"({' OR '.join(parts or [where.flag(False)])})")  # only messages have a place


def _on_summary(query: Query, dialect: Dialect) -> Conditions:
    # All of a session, or of a user, must not be walked where few are named.
    aside = dialect.words["aside"]
    where = Where("summary", query, dialect, aside="" if query.sources is None else aside)
    where.aside = "" if query.sources is None and query.ids is None else aside
    where.ask("session_id", "agent_id", "ids", "without", "sources", "since", "until")
    where.nothing_foreign(known=("sources",))
    return where.done()


def _on_session(query: Query, dialect: Dialect) -> Conditions:
    where = Where("session", query, dialect)
    where.ask("session_id", "agent_id", "ids", "without", "since", "until")
    where.follows("s.started_at", "s.session_id")
    where.nothing_foreign(known=("after",))
    return where.done()


def _on_task(kind: Kind, query: Query, dialect: Dialect) -> Conditions:
    where = Where(kind, query, dialect)
    where.ask("agent_id", "session_id", "status", "task_id", "ids", "without", "since", "until")
    if kind == "task":
        where.follows("t.started_at", "t.id")
        if query.where is not None:
            where.add(OfTasks(dialect, where.values).sql(query.where))
    where.nothing_foreign(known=(*OF_TASKS, "after", "where") if kind == "task" else OF_TASKS)
    return where.done()
