"""The memories of mem0's API, which are the facts and knowledge of a `MemoryManager`."""

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import quote, unquote

from jiyi.clock import utc_now
from jiyi.errors import BadMessage, BadQuery, NotFound
from jiyi.exporters import record_text, to_mem0_memory
from jiyi.importers.mem0_client import OWNER_FIELDS
from jiyi.long_term import Learned
from jiyi.records import Fact, FactStatus, Kind, Knowledge, Message
from jiyi.records.fact import single_valued
from jiyi.server.keys import Caller, audited
from jiyi.server.served import Served
from jiyi.wire import shown_user

_MemoryDict = dict[str, Any]
"""A memory as mem0's client receives it."""

_SHARED_USER = "shared"  # the user of memories that were added for an agent or a run alone
_KINDS: Sequence[Kind] = ("fact", "knowledge")
_ACTIVE_STATUSES: Sequence[FactStatus] = ("active", "unsure")
_FIELD_NAMES = {"run_id": "session_id", "app_id": "metadata.app_id", "categories": "category"}  # in filters
_MAX_RECORDS = 10_000
_LEARNED_ROLE = "user"  # the role whose messages are read for facts
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class Memories:
    """The memories of one caller's users."""

    def __init__(self, served: Served, caller: Caller) -> None:
        self._served = served
        self._memory = served.memory_of(caller.tenant)
        self._caller = caller

    def add(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Store messages: each text as it is, or with ``infer`` the facts read from it.

        The whole text of a user's message is stored as well, unless a fact contains all of its words;
        messages of other roles are stored as they are, system messages not at all.
        """
        messages = given.get("messages")
        if not isinstance(messages, list) or not messages:
            raise BadMessage("messages must be a list of at least one message with role and content")
        owner = {**_check_mapping(given.get("filters"), "filters"), **given}
        app = {"app_id": owner["app_id"]} if owner.get("app_id") else {}
        shared: dict[str, Any] = {
            "metadata": {**_check_mapping(given.get("metadata"), "metadata"), **app} or None,
            "valid_from": _read_timestamp(given.get("timestamp")),
            "valid_to": _end_of_day(given.get("expiration_date")),
            "user_id": self._named_user(owner.get("user_id"), [owner.get(name) for name in OWNER_FIELDS]),
            "agent_id": owner.get("agent_id"),
            "session_id": owner.get("run_id"),
        }
        infer = given.get("infer") is not False
        events: dict[str, _MemoryDict] = {}
        for message in [Message.from_openai(message) for message in messages]:
            if message.role == "system" or not message.text.strip():
                continue
            speaker, text = message.name or message.role, message.text.strip()
            statement: dict[str, Any] = {"text": text}
            if not infer or message.role != _LEARNED_ROLE:
                statement = {"subject": speaker, "predicate": "note", "object": text, "category": "note"}
            for event in _list_events(self._memory.remember(**statement, speaker=speaker, **shared)):
                events.setdefault(event["id"], event)
        return {"results": list(events.values())}

    def search(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the memories that answer a query, best first."""
        limit = 10 if given.get("top_k") is None else given["top_k"]
        options: dict[str, Any] = {"kinds": _KINDS, "min_score": given.get("threshold") or 0.0}
        options |= self._read_conditions(given)
        hits = self._memory.search(given.get("query") or "", limit=limit, **options)
        best: dict[str, _MemoryDict] = {}  # several facts may share a text
        for hit in hits:
            if _is_visible(hit.record, given):
                shown = {**_to_memory(hit.record), "score": hit.relevance}
                best.setdefault(shown["memory"], shown)
        return {"results": list(best.values())}

    def page(self, given: Mapping[str, Any], number: int, size: int) -> tuple[int, list[_MemoryDict]]:
        """Return how many memories there are, and one page of them, newest first; pages count from 1."""
        conditions = self._read_conditions(given)
        states = (*_ACTIVE_STATUSES, "expired") if given.get("show_expired") else _ACTIVE_STATUSES
        facts = self._memory.facts(status=states, limit=_MAX_RECORDS, **conditions)
        records: list[Fact | Knowledge] = [*facts, *self._memory.knowledge(_MAX_RECORDS, **conditions)]
        visible = [record for record in records if _is_visible(record, given)]
        visible.sort(key=lambda record: (record.created_at, record.id), reverse=True)
        begin = (number - 1) * size
        return len(visible), [_to_memory(record) for record in visible[begin : begin + size]]

    def get(self, memory_id: str) -> _MemoryDict:
        """Return one memory."""
        return _to_memory(self._get_record(memory_id))

    def update_all(self, changes: Sequence[Mapping[str, Any]]) -> None:
        """Change memories as `update` does: all of them, or none."""
        together = self._memory.parts.store.together
        together(lambda: [self.update(change, change["memory_id"]) for change in changes])

    def update(self, given: Mapping[str, Any], memory_id: str) -> _MemoryDict:
        """Change the text or metadata of a memory."""
        record = self._get_record(memory_id)
        bad = {name for name, value in given.items() if value is not None} - {"memory_id", "text", "metadata"}
        if bad:
            raise BadQuery(f"{', '.join(sorted(bad))} cannot be changed; text and metadata can")
        text, metadata, user = given.get("text"), given.get("metadata"), record.scope.user_id
        self._memory.update(record.id, text=text, metadata=metadata, user_id=user)
        return self.get(memory_id)

    def history(self, memory_id: str) -> list[_MemoryDict]:
        """Return the versions of a memory, oldest first."""
        record = self._get_record(memory_id)
        old_text: str | None = None
        entries: list[_MemoryDict] = []
        for version in [*self._find_superseded(record)[::-1], record]:
            new_text, date = record_text(version), version.created_at.isoformat()
            user, event = shown_user(version.scope.user_id), "UPDATE" if old_text else "ADD"
            texts = {"old_memory": old_text, "new_memory": new_text}
            entry: _MemoryDict = {"id": version.id, "memory_id": memory_id, **texts, "event": event}
            dates = {"created_at": date, "updated_at": date}
            entries.append({**entry, "user_id": user, "metadata": dict(version.metadata), **dates})
            old_text = new_text
        return entries

    def delete(self, memory_ids: Iterable[str], *, linked: bool = False) -> None:
        """Forget memories; with ``linked`` also those they superseded."""
        for record in map(self._get_record, memory_ids):
            superseded = self._find_superseded(record) if linked else ()
            self._forget(record.scope.user_id, ids=[record.id, *(fact.id for fact in superseded)])

    def clear(self, given: Mapping[str, Any]) -> dict[str, str]:
        """Forget all memories of a user, an agent or a run that match the filters."""
        owner = {name: given[name] for name in OWNER_FIELDS if given.get(name)}
        conditions = _check_mapping(_read_filters(given.get("filters")), "filters")
        selection = self._read_conditions({"filters": {**conditions, **owner}})
        user, everything = selection.pop("user_id"), {} if selection["filters"] else {"everything": True}
        self._forget(user, kinds=_KINDS, limit=_MAX_RECORDS, **(everything or selection))
        return {"message": "Memories deleted successfully!"}

    def entities(self) -> dict[str, Any]:
        """Return the users with memories."""
        users = [
            {"id": name, "name": name, "type": "user"}
            for name in self._served.list_users(self._caller)
            if self._memory.facts(status=_ACTIVE_STATUSES, limit=1, user_id=self._stored_user(name))
            or self._memory.knowledge(1, user_id=self._stored_user(name))
        ]
        return {"count": len(users), "next": None, "previous": None, "results": users}

    def delete_entity(self, kind: str, name: str) -> dict[str, str]:
        """Forget everything of a user, conversations included."""
        if kind != "user":
            raise BadQuery(f"{kind} cannot be deleted as such; delete_all takes user_id, agent_id and run_id")
        if not self._forget(self._stored_user(name), everything=True):
            raise NotFound(f"there is nothing of a user {name!r}")
        return {"message": "Entity deleted successfully."}

    def _forget(self, user: str, **what: Any) -> int:
        with audited("forget", self._caller, user=user, said=sorted(what)):
            return self._memory.forget(user_id=user, **what).total

    def _read_conditions(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the stored user of a request, and its other conditions as filters of jiyi."""
        users: set[str] = set()
        filters = _translate(_check_mapping(given.get("filters"), "filters"), users)
        if len(users) > 1:
            raise BadQuery(f"memories of {len(users)} users were asked for: ask for each on its own")
        dates = {op: _to_datetime(given[name]) for op, name in _DATE_PARAMETERS if given.get(name)}
        if dates:
            filters = {"and": [part for part in (filters, {"created_at": dates}) if part]}
        return {"filters": filters or None, "user_id": self._named_user(next(iter(users), None), filters)}

    def _named_user(self, user: str | None, others: Iterable[object]) -> str:
        """Return the stored id of a user, that of the shared one if only ``others`` say whose memories."""
        # Empty text comes from a variable that was not set.
        if user == "" or not (user or self._caller.user or any(others)):
            raise BadQuery("say whose memories: user_id, agent_id, run_id or app_id, and none of them empty")
        return self._stored_user(user)

    def _stored_user(self, user: str | None) -> str:
        return self._caller.stored_user(user or self._caller.user or _SHARED_USER)

    def _get_record(self, memory_id: str) -> Fact | Knowledge:
        quoted, _, record_id = memory_id.partition(":")
        if quoted and record_id:
            record = self._memory.get(record_id, user_id=self._caller.stored_user(unquote(quoted)))
            if isinstance(record, Fact | Knowledge):
                return record
        raise NotFound(f"there is no memory with the id {memory_id!r}")

    def _find_superseded(self, record: Fact | Knowledge) -> list[Fact]:
        """Return the facts that a fact superseded, newest first."""
        facts: list[Fact] = []
        fact_id = record.supersedes if isinstance(record, Fact) else None
        while fact_id:
            try:
                fact = self._memory.get(fact_id, user_id=record.scope.user_id)
            except NotFound:  # forgotten meanwhile
                break
            if not isinstance(fact, Fact) or fact in facts:
                break
            facts.append(fact)
            fact_id = fact.supersedes
        return facts


def _to_memory(record: Any) -> _MemoryDict:
    user = shown_user(record.scope.user_id)
    whose = {"id": f"{quote(user, safe='')}:{record.id}", "user_id": None if user == _SHARED_USER else user}
    return {**to_mem0_memory(record), **whose}


def _is_visible(record: Any, given: Mapping[str, Any]) -> bool:
    """Return whether a record is shown as a memory: expired ones only if requested.

    Facts that are not single-valued repeat the text of a note.
    """
    if isinstance(record, Knowledge):
        return True
    is_expired = record.valid_to is not None and record.valid_to <= utc_now()
    return single_valued(record.predicate) and (bool(given.get("show_expired")) or not is_expired)


def _list_events(learned: Learned) -> Iterable[_MemoryDict]:
    names = {**dict.fromkeys(learned.reinforced, "NONE"), **dict.fromkeys(learned.new, "ADD")}
    names |= dict.fromkeys((*learned.superseded, *learned.retracted), "DELETE")
    for fact in learned.facts:
        if fact.id in names and single_valued(fact.predicate):
            shown = _to_memory(fact)
            yield {"id": shown["id"], "memory": shown["memory"], "event": names[fact.id]}


_DATE_PARAMETERS = (("gte", "start_date"), ("lte", "end_date"))
_DATE_FIELDS = ("created_at", "updated_at", "valid_from", "valid_to")


def _translate(conditions: Mapping[str, Any], users: set[str] | None) -> dict[str, Any]:
    """Return conditions with the field names of jiyi; the user is added to ``users`` instead."""
    translated: dict[str, Any] = {}
    for name, value in conditions.items():
        operator = name.upper()
        if name == "user_id":
            user = value.get("eq") if isinstance(value, Mapping) else value
            if users is None or not isinstance(user, str) or user == "*":
                raise BadQuery("user_id must be one id, and neither in OR nor in NOT: ask for each user")
            users.add(user)
        elif operator in ("AND", "OR", "NOT"):
            values = value if isinstance(value, list) else [value]
            and_users = users if operator == "AND" else None
            parts = [_translate(_check_mapping(part, f"a part of {operator}"), and_users) for part in values]
            if any(parts):
                translated[operator] = [part for part in parts if part]
        elif name == "keywords":
            note = {"predicate": "note"}  # `record_text` shows these fields of a memory
            translated[name] = {"or": [{**note, "object": value}, {"not": [note], "text": value}]}
        else:
            translated[_FIELD_NAMES.get(name, name)] = _to_datetime(value) if name in _DATE_FIELDS else value
    if (words := translated.pop("keywords", None)) is not None:
        return {"and": [translated, words]} if translated else words
    return translated


def _to_datetime(value: Any) -> Any:
    """Return dates as datetimes: days in mem0's filters have no zone and are taken as UTC."""
    if isinstance(value, Mapping):
        return {name: _to_datetime(nested) for name, nested in value.items()}
    return f"{value}T00:00:00+00:00" if isinstance(value, str) and _DAY.fullmatch(value) else value


def _check_mapping(given: object, name: str) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise BadQuery(f"{name} must be an object, not {type(given).__name__}")
    return dict(given or {})


def _read_filters(filters: object) -> object:
    """Return the filters in a query string, as JSON or as the Python dict that mem0's client sends."""
    if not isinstance(filters, str):
        return filters
    for read in (json.loads, ast.literal_eval):
        try:
            return read(filters)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    raise BadQuery("filters can be read neither as JSON nor as a dict of Python")


def _read_timestamp(given: object) -> datetime | None:
    if given is None:
        return None
    if not isinstance(given, int | float) or isinstance(given, bool):
        raise BadQuery(f"timestamp must be seconds since 1970, not {given!r}")
    try:
        return datetime.fromtimestamp(given, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise BadQuery(f"timestamp={given} is no date of the years 1 to 9999") from error


def _end_of_day(given: object) -> datetime | None:
    if given is None:
        return None
    try:
        day = date.fromisoformat(str(given))
        return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
    except (ValueError, OverflowError) as error:
        raise BadQuery(f"expiration_date must be a date such as 2031-12-31, not {given!r}") from error
