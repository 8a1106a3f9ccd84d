"""Queries to SQL conditions: every condition begins with the user."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from jiyi.clock import to_micros
from jiyi.records import SEARCHABLE, Kind, Query
from jiyi.storage.database import Dialect
from jiyi.storage.rows import is_storable
from jiyi.text.keys import entity_key, predicate_key

__all__ = ["OF_DOCUMENTS", "OF_TASKS", "Conditions", "on_documents", "on_kind"]

Conditions = tuple[str, dict[str, Any]]
"""A WHERE clause and the values of its named parameters."""

OF_DOCUMENTS = (
    "roles",
    "metadata",
    "after_seq",
    "before_seq",
    "stretches",
    "target",
    "consolidated",
    "entity",
    "subject",
    "predicate",
    "as_of",
    "fact_status",
    "sources",
)
"""Conditions of a query that only documents have."""

OF_TASKS = ("task_id", "status")
"""And those that only tasks and steps have."""

_Add = Callable[..., None]
_LEADING = ("sources", "target", "entity", "subject")  # conditions that an index of their own answers


def on_documents(query: Query, dialect: Dialect, kinds: Sequence[Kind] = ()) -> Conditions:
    """Return the conditions of a query on ``documents AS d``; ``kinds`` for others than the query's."""
    # All records of a user and a kind must not be walked where few are named.
    aside = dialect.aside if _leads(query) else ""
    aside_user = aside if query.stretches is None else dialect.aside  # each stretch names the user
    parts = [f"{aside_user}d.{dialect.user} = :user_id"]
    values: dict[str, Any] = {"user_id": query.scope.user_id}

    def add(condition: str, **value: object) -> None:
        parts.append(condition)
        values.update(value)

    kinds = [kind for kind in kinds or query.kinds if kind in SEARCHABLE]
    if set(kinds) != set(SEARCHABLE):
        add(_one_of(dialect, f"{aside}d.kind", kinds))
    if query.scope.agent_id is not None:
        add("d.agent_id = :agent_id", agent_id=query.scope.agent_id)
    if query.scope.session_id is not None:
        add("d.session_id = :session_id", session_id=query.scope.session_id)
    _on_ids(query, dialect, parts, values, "d.id")
    if query.roles is not None:
        add(_one_of(dialect, "d.role", query.roles))
    if query.since is not None:
        add("d.created_at >= :since", since=to_micros(query.since))
    if query.until is not None:
        add("d.created_at < :until", until=to_micros(query.until))
    if query.pinned is not None:
        add(f"d.pinned = {_flag(dialect, query.pinned)}")
    for number, (key, label) in enumerate(query.metadata or ()):
        names = {"key": f"label_{number}", "value": f"label_value_{number}"}
        add(
            dialect.labelled.format(**names),
            **{names["key"]: key, names["value"]: json.dumps(label)},
        )
    if query.after_seq is not None:
        add("d.seq > :after_seq", after_seq=query.after_seq)
    if query.before_seq is not None:
        add("d.seq < :before_seq", before_seq=query.before_seq)
    _on_stretches(query, dialect, add)
    if query.task_id is not None:
        add(
            _exists(dialect, "episodes", "o", "o.task_id = :task_id"),
            task_id=query.task_id,
        )
    if query.status is not None:
        add(dialect.no)
    _on_sources(query, dialect, add)
    _on_episodes(query, dialect, add)
    _on_facts(query, dialect, add)
    return " AND ".join(parts), values


def _on_ids(query: Query, dialect: Dialect, parts: list[str], values: dict[str, Any], column: str) -> None:
    if query.ids is not None:
        parts.append(_among(dialect, column, "ids"))
        values["ids"] = dialect.listed(query.ids)
    if query.without:
        parts.append(f"NOT ({_among(dialect, column, 'without')})")
        values["without"] = dialect.listed(query.without)


def _on_stretches(query: Query, dialect: Dialect, add: _Add) -> None:
    if query.stretches is None:
        return
    values: dict[str, object] = {}
    parts = [dialect.no]
    for number, (session, first, last) in enumerate(query.stretches):
        names = (f"in_{number}", f"from_{number}", f"to_{number}")
        if is_storable(session):  # else no session can have this id
            place = "d.session_id = :{} AND d.seq BETWEEN :{} AND :{}".format(*names)
            parts.append(f"(d.{dialect.user} = :user_id AND {place})")
            values |= dict(zip(names, (session, first, last), strict=True))
    add(f"({' OR '.join(parts[1:] or parts)})", **values)  # only messages have a place


def _leads(query: Query) -> bool:
    return any(getattr(query, name) for name in _LEADING)


def _on_sources(query: Query, dialect: Dialect, add: _Add) -> None:
    if query.sources is not None:
        add(
            f"d.doc IN (SELECT s.doc FROM sources AS s WHERE {dialect.owned.format(alias='s')} "
            f"AND {_among(dialect, 's.source', 'sources')})",
            sources=dialect.listed(query.sources),
        )


def _on_episodes(query: Query, dialect: Dialect, add: _Add) -> None:
    if query.target:
        flags = f"{dialect.no}, {dialect.yes}"
        add(
            f"d.doc IN (SELECT e.doc FROM episodes AS e WHERE {dialect.owned.format(alias='e')} "
            f"AND e.consolidated IN ({flags}) AND e.target_key = :target_key)",
            target_key=entity_key(query.target),
        )
    elif query.target is not None:  # many may be about nothing
        add(_exists(dialect, "episodes", "e", "e.target_key = ''"))
    if query.consolidated is not None:
        flag = _flag(dialect, query.consolidated)
        add(_exists(dialect, "episodes", "e", f"e.consolidated = {flag}"))


def _on_facts(query: Query, dialect: Dialect, add: _Add) -> None:
    owned = f"SELECT f.doc FROM facts AS f WHERE {dialect.owned.format(alias='f')}"
    if query.entity is not None:  # two questions: for an OR SQLite would read all facts of the user
        halves = (f"{owned} AND f.{column} = :entity" for column in ("subject_key", "object_key"))
        add(f"d.doc IN ({' UNION ALL '.join(halves)})", entity=entity_key(query.entity))
    if query.subject is not None:
        add(f"d.doc IN ({owned} AND f.subject_key = :subject)", subject=entity_key(query.subject))
    if query.predicate is not None:
        points = (query.predicate,) if isinstance(query.predicate, str) else query.predicate
        point = _among(dialect, "f.predicate_key", "predicates")
        add(
            _exists(dialect, "facts", "f", point) if _leads(query) else f"d.doc IN ({owned} AND {point})",
            predicates=dialect.listed([predicate_key(one) for one in points]),
        )
    if query.fact_status is not None:
        add(_exists(dialect, "facts", "f", _one_of(dialect, "f.status", query.fact_status)))
    if query.as_of is not None:
        valid = (
            "f.status != 'retracted' AND coalesce(f.valid_from, d.created_at) <= :as_of "
            "AND (f.valid_to IS NULL OR f.valid_to > :as_of)"
        )
        add(_exists(dialect, "facts", "f", valid), as_of=to_micros(query.as_of))


def _exists(dialect: Dialect, table: str, alias: str, condition: str) -> str:
    same = dialect.same.format(alias=alias)
    return f"EXISTS (SELECT 1 FROM {table} AS {alias} WHERE {same} AND {condition})"


def _among(dialect: Dialect, column: str, name: str) -> str:
    return dialect.among.format(column=column, name=name)


def _flag(dialect: Dialect, value: bool) -> str:
    return dialect.yes if value else dialect.no


def _one_of(dialect: Dialect, column: str, names: Sequence[str]) -> str:
    """Compare with constants: only so can SQLite use an index that covers one kind or role.

    The names come from the fixed lists that `Query` checks against, never from a caller's text.
    """
    if not names:
        return dialect.no
    if len(names) == 1:
        return f"{column} = '{names[0]}'"
    return f"{column} IN ({', '.join(repr(name) for name in names)})"


def on_kind(kind: Kind, query: Query, dialect: Dialect) -> Conditions:
    """Return the conditions for one kind of record, under the alias its statements use."""
    if kind in SEARCHABLE:
        return on_documents(query, dialect, (kind,))
    if kind == "summary":
        return _on_summary(query, dialect)
    return _on_session(query, dialect) if kind == "session" else _on_task(kind, query, dialect)


def _on_summary(query: Query, dialect: Dialect) -> Conditions:
    # All of a session, or of a user, must not be walked where few are named.
    aside_user = "" if query.sources is None else dialect.aside
    aside = "" if query.sources is None and query.ids is None else dialect.aside
    parts = [f"{aside_user}s.{dialect.user} = :user_id"]
    values: dict[str, Any] = {"user_id": query.scope.user_id}
    for column in ("session_id", "agent_id"):
        value = getattr(query.scope, column)
        if value is not None:
            parts.append(f"{aside}s.{column} = :{column}")
            values[column] = value
    _on_ids(query, dialect, parts, values, "s.id")
    if query.sources is not None:
        parts.append(
            f"s.entry IN (SELECT c.entry FROM covered AS c WHERE {dialect.owned.format(alias='c')} "
            f"AND {_among(dialect, 'c.message', 'sources')})"
        )
        values["sources"] = dialect.listed(query.sources)
    _add_shared(query, dialect, parts, values, "s.created_at", known=("sources",))
    return " AND ".join(parts), values


def _on_session(query: Query, dialect: Dialect) -> Conditions:
    parts = [f"s.{dialect.user} = :user_id"]
    values: dict[str, Any] = {"user_id": query.scope.user_id}
    if query.scope.session_id is not None:
        parts.append("s.session_id = :session_id")
        values["session_id"] = query.scope.session_id
    if query.scope.agent_id is not None:
        parts.append(
            f"EXISTS (SELECT 1 FROM documents AS d WHERE d.{dialect.user} = :user_id "
            "AND d.kind = 'message' AND d.session_id = s.session_id AND d.agent_id = :agent_id)"
        )
        values["agent_id"] = query.scope.agent_id
    _on_ids(query, dialect, parts, values, "s.session_id")
    _add_shared(query, dialect, parts, values, "s.started_at")
    return " AND ".join(parts), values


def _on_task(kind: Kind, query: Query, dialect: Dialect) -> Conditions:
    parts = [f"t.{dialect.user} = :user_id"]
    values: dict[str, Any] = {"user_id": query.scope.user_id}
    narrow = {"agent_id": query.scope.agent_id, "session_id": query.scope.session_id, "status": query.status}
    for column, value in narrow.items():
        if value is not None:
            parts.append(f"t.{column} = :{column}")
            values[column] = value
    if query.task_id is not None:
        parts.append(f"{'s.task_id' if kind == 'step' else 't.id'} = :task_id")
        values["task_id"] = query.task_id
    _on_ids(query, dialect, parts, values, "s.id" if kind == "step" else "t.id")
    _add_shared(query, dialect, parts, values, "t.started_at", known=OF_TASKS)
    return " AND ".join(parts), values


def _add_shared(
    query: Query,
    dialect: Dialect,
    parts: list[str],
    values: dict[str, Any],
    column: str,
    *,
    known: Sequence[str] = (),
) -> None:
    """Add what all but documents share: times, and nothing for conditions of other kinds.

    ``known`` are those of other kinds that count here too.
    """
    if query.since is not None:
        parts.append(f"{column} >= :since")
        values["since"] = to_micros(query.since)
    if query.until is not None:
        parts.append(f"{column} < :until")
        values["until"] = to_micros(query.until)
    foreign = {*OF_DOCUMENTS, *OF_TASKS}.difference(known)
    if query.pinned or any(getattr(query, name) is not None for name in foreign):
        parts.append(dialect.no)
