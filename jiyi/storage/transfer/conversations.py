"""Reading messages from conversation files: OpenAI JSONL and JSON, and the neutral evaluation format."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from jiyi.clock import read_moment
from jiyi.errors import BadMessage, ImportFailed, InputError
from jiyi.records import Message, Scope, check_metadata, stable_id
from jiyi.storage.transfer.files import NOT_JSON, Found, Rejected, json_lines, open_to_read

__all__ = ["read_conversations"]

_DATE_KEYS = ("created_at", "timestamp")
_ENVELOPE_KEYS = ("id", "session_id", *_DATE_KEYS)
_MAX_BYTES = 256 * 1024 * 1024  # of a file that is read as one value
_LINE_SUFFIXES = (".jsonl", ".ndjson")
_DATE_MARGIN = timedelta(days=1)  # milliseconds are added to dates


def read_conversations(
    path: Path, scope: Scope, *, zone: tzinfo = UTC, session_id: str | None = None
) -> Iterator[Found | Rejected]:
    """Yield the messages of a file in order, and a `Rejected` for each entry that is none.

    The formats are: JSONL with one OpenAI message or one ``{"messages": [...]}`` per line; JSON with a
    list of messages, one or a list of ``{"messages": [...]}``, or ``{"conversations": [...]}`` of the
    neutral format; all in UTF-8. A message may have ``id``, ``session_id`` and ``created_at`` (ISO 8601,
    in ``zone`` if it names none, or seconds since 1970); its session is otherwise ``session_id``, by
    default the file's name. A message without an id gets one that depends only on its session and content
    (and on how often the content occurred before), so that importing a file again, even with lines
    repaired or added, finds the same ids.

    Raises `ImportFailed` if the file cannot be read, is JSON of more than 256 MiB, or holds no messages.
    """
    reader = _Reader(scope, zone)
    default = session_id or path.stem
    if path.suffix.lower() in _LINE_SUFFIXES:
        yield from _read_lines(path, reader, default)
        return
    text = _read_text(path)
    if not text.strip():
        return
    try:
        data = json.loads(text)
    except NOT_JSON as error:
        if not _looks_like_lines(text):
            what = f"{path} is not JSON: {error}"
            raise ImportFailed(f"{what}; for one message a line name it *.jsonl") from error
        yield from _read_lines(path, reader, default)
        return
    yield from reader.anything(data, path.name, default)


def _read_text(path: Path) -> str:
    with open_to_read(path) as file:
        raw = file.read(_MAX_BYTES + 1)
    if len(raw) > _MAX_BYTES:
        raise ImportFailed(f"{path} is larger than 256 MiB; write one message a line and name it *.jsonl")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ImportFailed(f"{path} is not UTF-8 (byte {error.start}); convert it first") from error


def _looks_like_lines(text: str) -> bool:
    try:
        return isinstance(json.loads(text.lstrip().partition("\n")[0]), dict)
    except NOT_JSON:
        return False


def _read_lines(path: Path, reader: "_Reader", session_id: str) -> Iterator[Found | Rejected]:
    for where, entry in json_lines(path):
        if isinstance(entry, Rejected):
            yield entry
        elif isinstance(entry, Mapping) and "messages" in entry:
            yield from reader.anything(entry, where, f"{session_id}-{where.rpartition(':')[2]}")
        else:
            yield reader.message(entry, where, session_id)


class _Reader:
    """Converts entries to messages, and counts repetitions for their ids."""

    def __init__(self, scope: Scope, zone: tzinfo) -> None:
        self._scope = scope
        self._zone = zone
        self._counts: dict[str, int] = {}

    def anything(self, data: object, where: str, session_id: str) -> Iterator[Found | Rejected]:
        """Read the whole value of a JSON file of any form."""
        if isinstance(data, Mapping) and isinstance(data.get("conversations"), list):
            for i, conversation in enumerate(data["conversations"]):
                yield from self._neutral_conversation(conversation, f"{where} conversations[{i}]")
        elif isinstance(data, Mapping) and "messages" in data:
            session_id = str(data.get("session_id") or data.get("id") or session_id)
            yield from self.conversation(data["messages"], where, session_id)
        elif isinstance(data, Mapping) and "role" in data:
            yield self.message(data, where, session_id)
        elif isinstance(data, list):
            for i, entry in enumerate(data):
                if isinstance(entry, Mapping) and "messages" in entry:
                    yield from self.anything(entry, f"{where} [{i}]", f"{session_id}-{i + 1}")
                else:
                    yield self.message(entry, f"{where} [{i}]", session_id)
        else:
            raise ImportFailed(f"{where} holds neither messages nor conversations; see `jiyi import --help`")

    def conversation(
        self, messages: object, where: str, session_id: str, started: datetime | None = None
    ) -> Iterator[Found | Rejected]:
        """Read a list of messages of one session."""
        if not isinstance(messages, list):
            yield Rejected(where=where, reason="messages is not a list")
            return
        for i, entry in enumerate(messages):
            moment = started + timedelta(milliseconds=i) if started else None
            yield self.message(entry, f"{where} messages[{i}]", session_id, moment)

    def message(
        self, entry: object, where: str, session_id: str, moment: datetime | None = None
    ) -> Found | Rejected:
        """Read one message; ``moment`` is its date if it has none."""
        try:
            if not isinstance(entry, Mapping):
                raise InputError(f"a message is an object with role and content, not {type(entry).__name__}")
            body = {k: v for k, v in entry.items() if k not in _ENVELOPE_KEYS}
            session = str(entry.get("session_id") or session_id)
            date = next((date for date in map(entry.get, _DATE_KEYS) if date not in (None, "")), None)
            check_metadata(body.get("metadata", {}))
            if body.get("content") is None and body.get("role") in ("system", "user"):
                raise BadMessage(f"a {body['role']} message needs content: text or a list of parts")
            message = Message.from_openai(
                body,
                id=self._id(entry.get("id"), session, body),
                scope=self._scope.in_session(session),
                created_at=moment if date is None else read_moment(date, zone=self._zone, room=_DATE_MARGIN),
            )
        except InputError as error:
            return Rejected.because(where, error)
        return Found(where=where, record=message)

    def _neutral_conversation(self, conversation: Any, where: str) -> Iterator[Found | Rejected]:
        fields = conversation if isinstance(conversation, Mapping) else {}
        prefix, sessions = fields.get("conversation_id"), fields.get("sessions")
        if prefix is None or not isinstance(sessions, list):
            yield Rejected(where=where, reason="a conversation needs conversation_id and a list of sessions")
            return
        for i, session in enumerate(sessions):
            place = f"{where}.sessions[{i}]"
            if not isinstance(session, Mapping) or "messages" not in session:
                yield Rejected(where=place, reason="a session needs session_id and messages")
                continue
            started = session.get("started_at")
            try:
                moment = read_moment(started, zone=self._zone, room=_DATE_MARGIN) if started else None
            except InputError as error:
                yield Rejected.because(place, error)
                continue
            name = f"{prefix}/{session.get('session_id', i)}"
            yield from self.conversation(session["messages"], place, name, moment)

    def _id(self, given: object, session: str, body: Mapping[str, Any]) -> str:
        if given is not None:
            return str(given)
        id_ = stable_id("import", session, json.dumps(body, sort_keys=True))
        repetition = self._counts[id_] = self._counts.get(id_, -1) + 1
        return stable_id(id_, str(repetition)) if repetition else id_
