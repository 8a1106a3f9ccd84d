"""Entries that readers of foreign formats yield, the factory of their records, and conversions."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from jiyi.clock import read_moment, utc_now
from jiyi.errors import ImportFailed, InputError
from jiyi.records import Fact, FactCategory, Item, Knowledge, Message, Record, Scope, join_strings, stable_id
from jiyi.storage.transfer.files import Found, Rejected

_MAX_ID_CHARS = 200
_MAX_LABEL_CHARS = 300  # of a title or other metadata
_DEFAULT_CONFIDENCE = 0.9  # in the facts of another memory

_Fields = Mapping[str, Any]
_Body = dict[str, Any]
_Turn = tuple[Sequence[_Body], Sequence[str]]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that is no memory, such as a hidden message; reported only as a count."""

    what: str  # in the plural
    count: int = 1


Entry = Found | Rejected | LeftOut
"""What a reader yields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMaker:
    """Makes records that name their source, with ids that are the same in every import."""

    source: str  # the program; the prefix of every id
    scope: Scope  # of the user they belong to
    zone: tzinfo = UTC  # of dates without one

    def find_others(self, users: Iterable[object]) -> tuple[str, ...]:
        """Return which of several users are not this memory's; ImportFailed: none of them is."""
        names = sorted({name for name in users if isinstance(name, str)})
        mine = self.scope.user_id.rpartition("//")[2]  # a server adds the tenant
        if len(names) > 1 and mine not in names:
            several = f"this holds data of {len(names)} users of {self.source}"
            raise ImportFailed(f"{several}; import it as one of them, such as {names[0][:40]}")
        return tuple(name for name in names if name != mine and len(names) > 1)

    def message(
        self, where: str, body: _Fields, *, id: object, session: object, date: object = None, **labels: Any
    ) -> Entry:
        """Make a message from a Chat Completions dict; system prompts are left out.

        ``where`` is the place in the file, ``session`` the id of the conversation at the source. Without an
        ``id`` at the source, one is derived from text and place. ``labels`` become metadata.
        """
        if body.get("role") in ("system", "developer"):
            return LeftOut("prompts of the system")
        if not (body.get("content") or body.get("tool_calls") or body.get("role") == "tool"):
            return LeftOut("messages without words")

        labelled = {**body, "metadata": self._labels(session, **labels)}
        own_id = self._id(id, where, json.dumps(body, sort_keys=True, default=str))

        def make(scope: Scope) -> Message:
            home = scope.in_session(self._id(session, where))
            return Message.from_openai(labelled, id=own_id, scope=home, created_at=self.date(date))

        return self._attempt(where, make)

    def turn(self, where: str, turn: _Turn, *, id: object, **fields: Any) -> Iterator[Entry]:
        """Make the messages of a turn, as `split_turn` returns it, and count what it left out."""
        bodies, left_out = turn
        yield from map(LeftOut, left_out)
        for part, body in enumerate(bodies):
            yield self.message(where, body, id=f"{id}/{part}" if part else id, **fields)

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
        title, metadata = topic.strip()[:_MAX_LABEL_CHARS] or self.source, self._labels(origin, **labels)
        fields: Any = {"id": self._id(id, where), "topic": title, "content": content, "metadata": metadata}
        return self._attempt(where, Knowledge, created_at=created_at, updated_at=created_at, **fields)

    def item(self, where: str, namespace: Sequence[str], key: str, value: _Fields, *, date: object) -> Entry:
        """Make an item from a value that another program stored under a key."""
        created_at = self.date(date) or utc_now()
        fields: Any = {"namespace": tuple(namespace), "key": key, "value": value, "text": join_strings(value)}
        return self._attempt(where, Item, created_at=created_at, updated_at=created_at, **fields)

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
        if not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
            confidence = _DEFAULT_CONFIDENCE
        subject, predicate, value = map(str, triple)
        text = value if category == "note" and predicate == "note" else ""
        told = {"subject": subject, "predicate": predicate, "object": value, "category": category}
        created_at, valid_from, valid_to = self.date(date) or utc_now(), self.date(begins), self.date(ends)
        dates = {"created_at": created_at, "valid_from": valid_from, "valid_to": valid_to}
        status = "expired" if valid_to and valid_to <= utc_now() else "active"
        source = {"speaker": speaker, "method": "said", "confidence": float(confidence), "status": status}
        metadata, fields = self._labels(origin, **(labels or {})), {**told, **dates, **source}
        return self._attempt(where, Fact, id=self._id(id, where), text=text, metadata=metadata, **fields)

    def _attempt(self, where: str, make: Callable[..., Record], **fields: Any) -> Entry:
        try:
            return Found(where=where, record=make(scope=self.scope, **fields))
        except InputError as error:
            return Rejected.because(where, error)

    def date(self, value: object) -> datetime | None:
        """Return a date as an aware datetime, None if it is no date."""
        with suppress(InputError):
            if isinstance(value, str | int | float | datetime):
                return read_moment(value, zone=self.zone)
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


_TOOL_CALL_TYPES = ("tool_use", "server_tool_use", "mcp_tool_use")
_REASONING_TYPES = ("thinking", "redacted_thinking", "reasoning", "redacted_reasoning")


def split_turn(role: str, content: object) -> tuple[list[_Body], list[str]]:
    """Split a turn into messages, and return them with what was left out.

    Text and the tool calls after it are one message; each tool result is a separate one, and text after
    it begins the next message.
    """
    if isinstance(content, str):
        return [{"role": role, "content": content}], []
    bodies, left_out = list[_Body](), list[str]()
    current: _Body | None = None  # what the next block may go on with
    for block in map(as_dict, as_list(content)):
        kind = block.get("type")
        if kind == "tool_result" or str(kind).endswith("_tool_result"):
            current, call_id = None, block.get("tool_use_id")
            given = block.get("content")
            text = join_text(given) or ("[image]" if given else "")
            bodies.append({"role": "tool", "tool_call_id": call_id, "content": text})
        elif kind in _TOOL_CALL_TYPES:
            if current is None:
                bodies.append(current := {"role": role, "content": None})
            call = tool_call(block.get("id"), block.get("name"), block.get("input"))
            current.setdefault("tool_calls", []).append(call)
        elif kind in _REASONING_TYPES:
            left_out.append("thoughts")
        elif kind in ("text", "image", "document"):
            text = join_text([block]) if kind == "text" else f"[{kind}]"
            if current is None or "tool_calls" in current:
                bodies.append(current := {"role": role, "content": ""})
            current["content"] = "\n".join(filter(None, [current["content"], text]))
        else:
            left_out.append(f"blocks of type {str(kind)[:40]}")
    return bodies, left_out


_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}


def parse_langchain_message(message: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a message of LangChain, whose ``type`` is its role, and what was left out of it."""
    kind = str(message.get("type")).lower().removesuffix("messagechunk").removesuffix("message")
    role = _ROLES.get(kind) or str(message.get("role") or kind)
    bodies, left_out = split_turn(role, message.get("content"))
    texts = [body["content"] for body in bodies if body.get("role") == role and body.get("content")]
    body: dict[str, Any] = {"role": role, "content": "\n".join(map(str, texts)) or None}
    given_calls = map(as_dict, as_list(message.get("tool_calls")))
    calls = [tool_call(call.get("id"), call.get("name"), call.get("args")) for call in given_calls]
    openai_calls = as_list(as_dict(message.get("additional_kwargs")).get("tool_calls"))
    if role == "assistant" and (calls or openai_calls):
        body["tool_calls"] = calls or list(openai_calls)
    if role == "tool":
        body |= {"tool_call_id": message.get("tool_call_id"), "content": body["content"] or ""}
    if isinstance(message.get("name"), str) and message["name"]:
        body["name"] = message["name"]
    return body, left_out


_LLAMA_INDEX_ROLES = {"function": "tool", "chatbot": "assistant", "model": "assistant"}


def parse_llama_index_message(message: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a message of LlamaIndex, with the calls of its blocks or extra fields, and what was left out."""
    blocks = [{"block_type": "text", **as_dict(block)} for block in as_list(message.get("blocks"))]
    extra, role = as_dict(message.get("additional_kwargs")), str(message.get("role"))
    text = join_text([block for block in blocks if block["block_type"] == "text"])
    body: dict[str, Any] = {"role": _LLAMA_INDEX_ROLES.get(role, role)}
    body["content"] = text or join_text(message.get("content"))
    calls: dict[str, dict[str, Any]] = {}
    for block in blocks:
        if block["block_type"] == "tool_call":
            name = block.get("tool_name")  # without an id a result has the name of its tool
            call = tool_call(block.get("tool_call_id") or name, name, block.get("tool_kwargs"))
            calls[call["id"]] = call
    for given in map(as_dict, as_list(extra.get("tool_calls"))):
        if given.get("id") and isinstance(given.get("function"), Mapping):
            calls.setdefault(given["id"], dict(given))
    if calls and body["role"] == "assistant":
        body["tool_calls"] = list(calls.values())
    if body["role"] == "tool" and isinstance(extra.get("tool_call_id"), str):
        body["tool_call_id"] = extra["tool_call_id"]
    others = [kind for block in blocks if (kind := block["block_type"]) not in ("text", "tool_call")]
    return body, [f"blocks of type {str(kind)[:40]}" for kind in others]
