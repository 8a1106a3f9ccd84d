"""Entries that readers of foreign formats yield, and the factory of their records."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from jiyi.clock import read_moment, utc_now
from jiyi.errors import InputError
from jiyi.records import Fact, FactCategory, Item, Knowledge, Message, Scope, join_strings, stable_id
from jiyi.storage.transfer.lines import Found, Rejected

__all__ = ["Entry", "LeftOut", "RecordMaker", "as_dict", "as_list", "join_text", "tool_call"]

_MAX_ID_CHARS = 200
_MAX_LABEL_CHARS = 300  # of a title or other metadata
_DEFAULT_CONFIDENCE = 0.9  # in the facts of another memory


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that is no memory, such as a hidden message; reported only as a count."""

    what: str  # in the plural
    count: int = 1


Entry = Found | Rejected | LeftOut
"""What a reader yields."""


def _attempt(where: str, make: Callable[[], Fact | Item | Knowledge | Message]) -> Entry:
    """Return the record that a function makes, a rejection if it cannot be one."""
    try:
        return Found(where=where, record=make())
    except InputError as error:
        return Rejected.because(where, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMaker:
    """Makes records that name their source, with ids that are the same in every import."""

    source: str  # the program; the prefix of every id
    scope: Scope  # of the user they belong to
    zone: tzinfo = UTC  # of dates without one

    def message(
        self,
        where: str,
        body: Mapping[str, Any],
        *,
        id: object,
        session: object,
        date: object = None,
        fallback_date: object = None,
        title: object = None,
        **labels: Any,
    ) -> Entry:
        """Make a message from a Chat Completions dict; system prompts are left out.

        Args:
            where: the place in the file.
            body: the dict.
            id: the id at the source; if it has none, one is derived from text and place.
            session: the id of the conversation at the source.
            date, fallback_date: the time of the message, and the one to take if that is no date.
            title: of the conversation.
            labels: more metadata.
        """
        if body.get("role") in ("system", "developer"):
            return LeftOut("prompts of the system")
        if not (body.get("content") or body.get("tool_calls") or body.get("role") == "tool"):
            return LeftOut("messages without words")
        return _attempt(
            where,
            lambda: Message.from_openai(
                {**body, "metadata": self._labels(session, title=title, **labels)},
                id=self._id(id, where, json.dumps(body, sort_keys=True, default=str)),
                scope=self.scope.in_session(self._id(session, where)),
                created_at=self.date(date) or self.date(fallback_date),
            ),
        )

    def knowledge(
        self,
        where: str,
        topic: str,
        content: object,
        *,
        id: object,
        origin: object,
        date: object = None,
        **labels: Any,
    ) -> Entry:
        """Make knowledge from a text of another program."""
        if not isinstance(content, str) or not content.strip():
            return LeftOut("notes without words")
        created_at = self.date(date) or utc_now()
        return _attempt(
            where,
            lambda: Knowledge(
                id=self._id(id, where),
                scope=self.scope,
                topic=topic.strip()[:_MAX_LABEL_CHARS] or self.source,
                content=content,
                created_at=created_at,
                updated_at=created_at,
                metadata=self._labels(origin, **labels),
            ),
        )

    def item(
        self, where: str, namespace: Sequence[str], key: str, value: Mapping[str, Any], *, date: object
    ) -> Entry:
        """Make an item from a value that another program stored under a key."""
        created_at = self.date(date) or utc_now()
        return _attempt(
            where,
            lambda: Item(
                scope=self.scope,
                namespace=tuple(namespace),
                key=key,
                value=value,
                text=join_strings(value),
                created_at=created_at,
                updated_at=created_at,
            ),
        )

    def fact(
        self,
        where: str,
        triple: Sequence[object],
        *,
        id: object,
        origin: object,
        date: object = None,
        category: FactCategory = "note",
        begins: object = None,
        ends: object = None,
        speaker: str | None = None,
        confidence: object = _DEFAULT_CONFIDENCE,
        labels: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Make a fact of a subject, predicate and object; past its end it is expired."""
        if not all(isinstance(part, str) and part.strip() for part in triple):
            return Rejected(where=where, reason="a fact needs a subject, a predicate and an object, all text")
        valid_confidence = isinstance(confidence, int | float) and 0 <= confidence <= 1
        subject, predicate, value = map(str, triple)
        valid_to = self.date(ends)
        return _attempt(
            where,
            lambda: Fact(
                id=self._id(id, where),
                scope=self.scope,
                subject=subject,
                predicate=predicate,
                object=value,
                text=value if category == "note" and predicate == "note" else "",
                category=category,
                speaker=speaker,
                method="said",
                confidence=float(confidence) if valid_confidence else _DEFAULT_CONFIDENCE,  # type: ignore[arg-type]
                created_at=self.date(date) or utc_now(),
                valid_from=self.date(begins),
                valid_to=valid_to,
                status="expired" if valid_to and valid_to <= utc_now() else "active",
                metadata=self._labels(origin, **(labels or {})),
            ),
        )

    def date(self, value: object) -> datetime | None:
        """Return a date as an aware datetime, None if it is no date."""
        if value in (None, "") or not isinstance(value, str | int | float | datetime):
            return None
        try:
            return read_moment(value, zone=self.zone)
        except InputError:
            return None

    def hash_id(self, *parts: object) -> str:
        """Return an id for a record without a unique one at the source: the same for the same parts."""
        return stable_id(*(json.dumps(part, sort_keys=True, default=str) for part in parts))

    def _id(self, source_id: object, *parts: str) -> str:
        name = str(source_id) if isinstance(source_id, str | int) else ""
        return f"{self.source}:{name if 0 < len(name) <= _MAX_ID_CHARS else stable_id(name, *parts)}"

    def _labels(self, origin: object, **labels: Any) -> dict[str, Any]:
        metadata = {k: v[:_MAX_LABEL_CHARS] if isinstance(v, str) else v for k, v in labels.items() if v}
        return {**metadata, "source": self.source, "imported_from": str(origin)[:_MAX_LABEL_CHARS]}


def tool_call(id_: object, name: object, arguments: object) -> dict[str, Any]:
    """Return a tool call of Chat Completions."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": text}}


def as_dict(value: object) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: object) -> Sequence[Any]:
    """Return a list as it is, and an empty sequence for anything else."""
    return value if isinstance(value, list) else ()


def join_text(value: object) -> str:
    """Return a text, or the lines of a list of texts and of parts with ``text`` or ``refusal``."""
    if isinstance(value, str):
        return value
    parts = [{"text": part} if isinstance(part, str) else as_dict(part) for part in as_list(value)]
    words = (part.get("text") or part.get("refusal") for part in parts)
    return "\n".join(word for word in words if isinstance(word, str) and word)
