"""Answers that come in pieces: server-sent events to text as it comes, and one whole answer."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from jiyi.llm.answers import text_of

__all__ = ["Assembly", "BrokenOff", "WithoutThoughts", "lines_of"]

_THINK, _THOUGHT = "<think>", "</think>"
_FIELDS = ("event:", "id:", "retry:", ":")  # of server-sent events, beside data


class BrokenOff(Exception):
    """The endpoint ended its answer with an error, or without an end; says how."""


@dataclass(slots=True)
class _Call:
    """A tool call in the making."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class Assembly:
    """Puts an answer together again from the lines of a stream.

    - Understands pieces without an index or an id, arguments as an object, several calls in
      one piece, events without choices, tokens in any event or in none.
    - An endpoint that answers in one piece, as if it had not been asked to stream, is
      understood, too.
    """

    ended: bool = False  # whether the endpoint said that this was all
    _plain: list[str] = field(default_factory=list)  # lines that are no events
    _half: str = ""  # an event whose JSON goes on in the next line
    _seen: bool = False  # whether there was any event
    _text: list[str] = field(default_factory=list)
    _refusal: str = ""
    _calls: list[_Call] = field(default_factory=list)
    _places: dict[int, _Call] = field(default_factory=dict)  # the newest call of each index
    _answer: dict[str, Any] = field(default_factory=dict)  # model, usage
    _finish: str | None = None

    def feed(self, line: str) -> str:
        """Take one line and return the text that is new in it.

        Raises:
            BrokenOff: the line is an error.
            ValueError: a message holds what is no text.
        """
        if not line.startswith("data:"):
            if line.strip() and not line.startswith(_FIELDS):
                self._plain.append(line)
            return ""
        data = line[len("data:") :].strip()
        if data == "[DONE]":
            self.ended = True
            return ""
        try:
            event = json.loads(self._half + data)
        except (ValueError, RecursionError):
            self._half += data
            return ""
        self._half = ""
        self._seen = True
        return self._event(event) if isinstance(event, dict) else ""

    def body(self) -> bytes:
        """Return the whole answer as an endpoint gives it that does not stream.

        Raises:
            BrokenOff: the stream ended in the middle of the answer.
        """
        if not self._seen and not self._half:
            return "\n".join(self._plain).encode("utf-8", "replace")
        if not self.ended and self._finish is None:
            raise BrokenOff("it ended without an end")
        calls = [
            {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
            for call in self._calls
        ]
        message = {"content": "".join(self._text), "tool_calls": calls, "refusal": self._refusal}
        choice = {"message": message, "finish_reason": self._finish}
        return json.dumps({**self._answer, "choices": [choice]}).encode()

    def _event(self, event: dict[str, Any]) -> str:
        if event.get("error"):
            error = event["error"]
            words = error.get("message") if isinstance(error, dict) else error
            raise BrokenOff(str(words or error))
        for name in ("model", "usage"):
            if event.get(name):
                self._answer[name] = event[name]
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return ""
        if isinstance(choice.get("finish_reason"), str):
            self._finish = choice["finish_reason"]
        delta = choice.get("delta") or choice.get("message")
        if not isinstance(delta, dict):
            return ""
        if isinstance(delta.get("refusal"), str):
            self._refusal += delta["refusal"]
        calls = delta.get("tool_calls")
        for piece in calls if isinstance(calls, list) else ():
            if isinstance(piece, dict):
                self._add(piece)
        text = text_of(delta.get("content"))
        self._text.append(text)
        return text

    def _add(self, piece: dict[str, Any]) -> None:
        """Add a piece of a tool call to the call it belongs to."""
        body = piece.get("function")
        body = body if isinstance(body, dict) else {}
        id, name, arguments = piece.get("id") or "", body.get("name") or "", body.get("arguments")
        call = self._call(piece.get("index"), str(id), str(name))
        call.id = call.id or str(id)
        call.name = call.name or str(name)
        if isinstance(arguments, str):
            call.arguments += arguments
        elif arguments is not None:
            call.arguments = json.dumps(arguments, ensure_ascii=False)

    def _call(self, index: Any, id: str, name: str) -> _Call:
        """Return the call a piece belongs to; some endpoints count wrongly or not at all."""
        place = index if isinstance(index, int) else -1
        call = self._places.get(place)
        if call is not None and place < 0:  # no index: an id, or without ids a name, begins the next call
            is_new = id != call.id if id else bool(name and call.name)
        else:
            is_new = call is None or bool(id and call.id and id != call.id)
        if call is None or is_new:
            call = _Call()
            self._calls.append(call)
            self._places[place] = call
        return call


class WithoutThoughts:
    """Passes text on as it comes, without the thoughts in front that some models put into it.

    All it returns together is what `read_turn` makes of all it was given.
    """

    def __init__(self) -> None:
        self._held = ""
        self._state = "start"  # then "thinking", "behind" the thoughts, "open"

    def __call__(self, piece: str) -> str:
        """Return what of the text so far can be passed on now."""
        if self._state == "open":
            return piece
        self._held += piece
        if self._state == "start":
            begun = self._held.lstrip()
            if len(begun) < len(_THINK) and _THINK.startswith(begun):
                return ""
            self._state = "thinking" if begun.startswith(_THINK) else "open"
        if self._state == "thinking":
            _, found, rest = self._held.partition(_THOUGHT)
            if not found:
                return ""
            self._state, self._held = "behind", rest
        if self._state == "behind":
            self._held = self._held.lstrip()
            if not self._held:
                return ""
            self._state = "open"
        passed, self._held = self._held, ""
        return passed

    def rest(self) -> str:
        """Return what is still held back when there is no more to come."""
        return self._held if self._state == "start" else ""


def lines_of(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a stream as soon as they are whole.

    Lines end where the standard of server-sent events says, not at the other line ends of
    Unicode, which JSON may hold.
    """
    left = b""
    for chunk in chunks:
        *whole, left = (left + chunk).split(b"\n")
        for line in whole:
            yield line.rstrip(b"\r").decode("utf-8", "replace")
    if left:
        yield left.decode("utf-8", "replace")
