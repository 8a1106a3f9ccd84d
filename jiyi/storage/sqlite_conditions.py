"""Queries to SQL conditions: every condition begins with the user."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from jiyi.clock import to_micros
from jiyi.records import SEARCHABLE, Kind, Query
from jiyi.text.keys import entity_key, predicate_key

__all__ = ["Conditions", "on_documents", "on_kind"]

Conditions = tuple[str, dict[str, Any]]
"""A WHERE clause and the values of its named parameters."""

_Add = Callable[..., None]
_OWNER = "(SELECT o.owner FROM owners AS o WHERE o.user_id = :user_id)"
_OF_DOCUMENTS = (
    "roles",
    "after_seq",
    "before_seq",
    "target",
    "consolidated",
    "entity",
    "subject",
    "predicate",
    "as_of",
    "fact_status",
    "sources",
)  # conditions that only documents have
_LEADING = ("sources", "target", "entity", "subject")  # conditions that an index of their own answers
_NOTHING = "0"  # the condition of a part that this kind does not have: every part narrows


def on_documents(query: Query) -> Conditions:
    """Return the conditions of a query on ``documents AS d``."""
    # The plus keeps SQLite from walking all records of a user and a kind where few are named.
    plus = "+" if _leads(query) else ""
    parts = [f"{plus}d.user_id = :user_id"]
    values: dict[str, Any] = {"user_id": query.scope.user_id}

    def add(condition: str, **value: object) -> None:
        parts.append(condition)
        values.update(value)

    kinds = [kind for kind in query.kinds if kind in SEARCHABLE]
    if set(kinds) != set(SEARCHABLE):
        add(_one_of(f"{plus}d.kind", kinds))
    if query.scope.agent_id is not None:
        add("d.agent_id = :agent_id", agent_id=query.scope.agent_id)
    if query.scope.session_id is not None:
        add("d.session_id = :session_id", session_id=query.scope.session_id)
    if query.ids is not None:
        add("d.id IN (SELECT value FROM json_each(:ids))", ids=json.dumps(query.ids))
    if query.roles is not None:
        add(_one_of("d.role", query.roles))
    if query.since is not None:
        add("d.created_at >= :since", since=to_micros(query.since))
    if query.until is not None:
        add("d.created_at < :until", until=to_micros(query.until))
    if query.pinned is not None:
        add("d.pinned = 1" if query.pinned else "d.pinned = 0")
    if query.after_seq is not None:
        add("d.seq > :after_seq", after_seq=query.after_seq)
    if query.before_seq is not None:
        add("d.seq < :before_seq", before_seq=query.before_seq)
    if query.task_id is not None:
        add(
            "EXISTS (SELECT 1 FROM episodes AS o WHERE o.doc = d.doc AND o.task_id = :task_id)",
            task_id=query.task_id,
        )
    if query.status is not None:
        add(_NOTHING)
    _on_sources(query, add)
    _on_episodes(query, add)
    _on_facts(query, add)
    return " AND ".join(parts), values


def _leads(query: Query) -> bool:
    return any(getattr(query, name) for name in _LEADING)


def _on_sources(query: Query, add: _Add) -> None:
    if query.sources is not None:
        add(
            f"d.doc IN (SELECT s.doc FROM sources AS s WHERE s.owner = {_OWNER} "
            "AND s.source IN (SELECT value FROM json_each(:sources)))",
            sources=json.dumps(query.sources),
        )


def _on_episodes(query: Query, add: _Add) -> None:
    if query.target:
        add(
            f"d.doc IN (SELECT e.doc FROM episodes AS e WHERE e.owner = {_OWNER} "
            "AND e.consolidated IN (0, 1) AND e.target_key = :target_key)",
            target_key=entity_key(query.target),
        )
    elif query.target is not None:  # many may be about nothing
        add("EXISTS (SELECT 1 FROM episodes AS e WHERE e.doc = d.doc AND e.target_key = '')")
    if query.consolidated is not None:
        add(
            f"EXISTS (SELECT 1 FROM episodes AS e WHERE e.doc = d.doc "
            f"AND e.consolidated = {int(query.consolidated)})"
        )


def _on_facts(query: Query, add: _Add) -> None:
    owned = f"SELECT f.doc FROM facts AS f WHERE f.owner = {_OWNER}"
    if query.entity is not None:  # two questions: for an OR SQLite would read all facts of the user
        halves = (f"{owned} AND f.{column} = :entity" for column in ("subject_key", "object_key"))
        add(f"d.doc IN ({' UNION ALL '.join(halves)})", entity=entity_key(query.entity))
    if query.subject is not None:
        add(f"d.doc IN ({owned} AND f.subject_key = :subject)", subject=entity_key(query.subject))
    if query.predicate is not None:
        point = "f.predicate_key = :predicate"
        add(
            _of_facts(point) if _leads(query) else f"d.doc IN ({owned} AND {point})",
            predicate=predicate_key(query.predicate),
        )
    if query.fact_status is not None:
        add(_of_facts(_one_of("f.status", query.fact_status)))
    if query.as_of is not None:
        add(
            _of_facts(
                "f.status != 'retracted' AND coalesce(f.valid_from, d.created_at) <= :as_of "
                "AND (f.valid_to IS NULL OR f.valid_to > :as_of)"
            ),
            as_of=to_micros(query.as_of),
        )


def _of_facts(condition: str) -> str:
    return f"EXISTS (SELECT 1 FROM facts AS f WHERE f.doc = d.doc AND {condition})"


def _one_of(column: str, names: Sequence[str]) -> str:
    """Compare with constants: only so can SQLite use an index that covers one kind or role.

    The names come from the fixed lists that `Query` checks against, never from a caller's text.
    """
    if len(names) == 1:
        return f"{column} = '{names[0]}'"
    return f"{column} IN ({', '.join(repr(name) for name in names)})"


def on_kind(kind: Kind, query: Query) -> Conditions:
    """Return the conditions for one kind of record, under the alias its statements use."""
    if kind in SEARCHABLE:
        return on_documents(replace(query, kinds=(kind,)))
    if kind == "summary":
        return _on_summary(query)
    return _on_session(query) if kind == "session" else _on_task(kind, query)


def _on_summary(query: Query) -> Conditions:
    # The pluses keep SQLite from walking all of a session, or of a user, where few are named.
    plus_user = "" if query.sources is None else "+"
    plus = "" if query.sources is None and query.ids is None else "+"
    parts = [f"{plus_user}s.user_id = :user_id"]
    values: dict[str, Any] = {"user_id": query.scope.user_id}
    for column in ("session_id", "agent_id"):
        value = getattr(query.scope, column)
        if value is not None:
            parts.append(f"{plus}s.{column} = :{column}")
            values[column] = value
    if query.ids is not None:
        parts.append("s.id IN (SELECT value FROM json_each(:ids))")
        values["ids"] = json.dumps(query.ids)
    if query.sources is not None:
        parts.append(
            f"s.entry IN (SELECT c.entry FROM covered AS c WHERE c.owner = {_OWNER} "
            "AND c.message IN (SELECT value FROM json_each(:sources)))"
        )
        values["sources"] = json.dumps(query.sources)
    if query.task_id is not None or query.status is not None:
        parts.append(_NOTHING)
    _add_times(query, parts, values, "s.created_at", known="sources")
    return " AND ".join(parts), values


def _on_session(query: Query) -> Conditions:
    parts = ["s.user_id = :user_id"]
    values: dict[str, Any] = {"user_id": query.scope.user_id}
    if query.scope.session_id is not None:
        parts.append("s.session_id = :session_id")
        values["session_id"] = query.scope.session_id
    if query.scope.agent_id is not None:
        parts.append(
            "EXISTS (SELECT 1 FROM documents AS d WHERE d.user_id = s.user_id AND d.kind = 'message' "
            "AND d.session_id = s.session_id AND d.agent_id = :agent_id)"
        )
        values["agent_id"] = query.scope.agent_id
    if query.ids is not None:
        parts.append("s.session_id IN (SELECT value FROM json_each(:ids))")
        values["ids"] = json.dumps(query.ids)
    if query.task_id is not None or query.status is not None:
        parts.append(_NOTHING)
    _add_times(query, parts, values, "s.started_at")
    return " AND ".join(parts), values


def _add_times(
    query: Query, parts: list[str], values: dict[str, Any], column: str, *, known: str | None = None
) -> None:
    """Add the conditions that all but documents share; ``known`` is one of documents that counts here too."""
    if query.since is not None:
        parts.append(f"{column} >= :since")
        values["since"] = to_micros(query.since)
    if query.until is not None:
        parts.append(f"{column} < :until")
        values["until"] = to_micros(query.until)
    if query.pinned or any(getattr(query, name) is not None for name in _OF_DOCUMENTS if name != known):
        parts.append(_NOTHING)


def _on_task(kind: Kind, query: Query) -> Conditions:
    parts = ["t.user_id = :user_id"]
    values: dict[str, Any] = {"user_id": query.scope.user_id}
    narrow = {"agent_id": query.scope.agent_id, "session_id": query.scope.session_id, "status": query.status}
    for column, value in narrow.items():
        if value is not None:
            parts.append(f"t.{column} = :{column}")
            values[column] = value
    if query.task_id is not None:
        parts.append(f"{'s.task_id' if kind == 'step' else 't.id'} = :task_id")
        values["task_id"] = query.task_id
    if query.ids is not None:
        parts.append(f"{'s' if kind == 'step' else 't'}.id IN (SELECT value FROM json_each(:ids))")
        values["ids"] = json.dumps(query.ids)
    _add_times(query, parts, values, "t.started_at")
    return " AND ".join(parts), values
