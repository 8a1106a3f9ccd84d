"""What a reader of a foreign format gives, and the one way in which it makes records."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from jiyi.clock import read_moment, utc_now
from jiyi.errors import InputError
from jiyi.records import Fact, FactCategory, Item, Knowledge, Message, Scope, join_strings, stable_id
from jiyi.storage.transfer.lines import Found, Rejected

__all__ = ["Entry", "LeftOut", "Maker", "call_of", "items", "mapping", "text"]

_LONGEST_ID = 200
_LONGEST_LABEL = 300  # of a title; metadata is small
_SAID = 0.9  # confidence in what another memory kept


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that is no memory, such as a hidden message; told by number, not one by one."""

    what: str  # in the plural
    count: int = 1


Entry = Found | Rejected | LeftOut
"""What is read from a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """Makes records that name their source, with the same ids each time."""

    source: str  # the program, the first part of every id
    scope: Scope  # whose they become
    zone: tzinfo = UTC  # of dates that name none

    def message(
        self,
        where: str,
        body: Mapping[str, Any],
        *,
        id: object,
        talk: object,
        date: object = None,
        or_date: object = None,
        title: object = None,
        **labels: Any,
    ) -> Entry:
        """Make a message of a Chat Completions dict; prompts of the system are left out.

        Args:
            where: its place in the file.
            body: the dict.
            id: what the source calls it; of the text and place where it has no name.
            talk: what the source calls the conversation.
            date, or_date: when it was said, and what stands for it where that is no date.
            title: of the conversation.
            labels: more metadata.
        """
        if body.get("role") in ("system", "developer"):
            return LeftOut("prompts of the system")
        if not (body.get("content") or body.get("tool_calls") or body.get("role") == "tool"):
            return LeftOut("messages without words")
        try:
            message = Message.from_openai(
                {**body, "metadata": self._labels(talk, title=title, **labels)},
                id=self._id(id, where, json.dumps(body, sort_keys=True, default=str)),
                scope=self.scope.in_session(self._id(talk, where)),
                created_at=self.date(date) or self.date(or_date),
            )
        except InputError as error:
            return Rejected.because(where, error)
        return Found(where=where, record=message)

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
        """Make a piece of knowledge of a text that another program kept."""
        if not isinstance(content, str) or not content.strip():
            return LeftOut("notes without words")
        then = self.date(date) or utc_now()
        try:
            record = Knowledge(
                id=self._id(id, where),
                scope=self.scope,
                topic=topic.strip()[:_LONGEST_LABEL] or self.source,
                content=content,
                created_at=then,
                updated_at=then,
                metadata=self._labels(origin, **labels),
            )
        except InputError as error:
            return Rejected.because(where, error)
        return Found(where=where, record=record)

    def item(
        self, where: str, namespace: Sequence[str], key: str, value: Mapping[str, Any], *, date: object
    ) -> Entry:
        """Make an item of a value that another program kept under a key."""
        then = self.date(date) or utc_now()
        try:
            record = Item(
                scope=self.scope,
                namespace=tuple(namespace),
                key=key,
                value=value,
                text=join_strings(value),
                created_at=then,
                updated_at=then,
            )
        except InputError as error:
            return Rejected.because(where, error)
        return Found(where=where, record=record)

    def fact(
        self,
        where: str,
        said: Sequence[object],
        *,
        id: object,
        origin: object,
        date: object = None,
        category: FactCategory = "note",
        begins: object = None,
        ends: object = None,
        speaker: str | None = None,
        confidence: object = _SAID,
        labels: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Make a fact of a subject, predicate and object; one whose time is over is expired."""
        if not all(isinstance(part, str) and part.strip() for part in said):
            return Rejected(where=where, reason="a fact needs a subject, a predicate and an object, all text")
        sure = isinstance(confidence, int | float) and 0 <= confidence <= 1
        subject, predicate, value = map(str, said)
        valid_to = self.date(ends)
        try:
            record = Fact(
                id=self._id(id, where),
                scope=self.scope,
                subject=subject,
                predicate=predicate,
                object=value,
                text=value if category == "note" and predicate == "note" else "",
                category=category,
                speaker=speaker,
                method="said",
                confidence=float(confidence) if sure else _SAID,  # type: ignore[arg-type]
                created_at=self.date(date) or utc_now(),
                valid_from=self.date(begins),
                valid_to=valid_to,
                status="expired" if valid_to and valid_to <= utc_now() else "active",
                metadata=self._labels(origin, **(labels or {})),
            )
        except InputError as error:
            return Rejected.because(where, error)
        return Found(where=where, record=record)

    def date(self, written: object) -> datetime | None:
        """Return a moment as aware datetime; None where it is none."""
        if written in (None, "") or not isinstance(written, str | int | float | datetime):
            return None
        try:
            return read_moment(written, zone=self.zone)
        except InputError:
            return None

    def hashed(self, *parts: object) -> str:
        """Return an id for what its source gives none that is unique: the same for the same parts."""
        return stable_id(*(json.dumps(part, sort_keys=True, default=str) for part in parts))

    def _id(self, given: object, *parts: str) -> str:
        name = str(given) if isinstance(given, str | int) else ""
        return f"{self.source}:{name if 0 < len(name) <= _LONGEST_ID else stable_id(name, *parts)}"

    def _labels(self, origin: object, **labels: Any) -> dict[str, Any]:
        more = {k: v[:_LONGEST_LABEL] if isinstance(v, str) else v for k, v in labels.items() if v}
        return {**more, "source": self.source, "imported_from": str(origin)[:_LONGEST_LABEL]}


def call_of(id_: object, name: object, arguments: object) -> dict[str, Any]:
    """Return a tool call as Chat Completions writes it."""
    written = (
        arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    )
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": written}}


def mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping, an empty one for what is none."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> Sequence[Any]:
    """Return a list, an empty one for what is none."""
    return value if isinstance(value, list) else ()


def text(value: object) -> str:
    """Return the words of a text or of a list of texts and parts with ``text``, a line each."""
    if isinstance(value, str):
        return value
    words = (part if isinstance(part, str) else mapping(part).get("text") for part in items(value))
    return "\n".join(word for word in words if isinstance(word, str) and word)
