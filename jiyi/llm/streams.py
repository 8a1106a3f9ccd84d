"""Reads streamed answers: passes their text on as it comes, and puts the whole answer together."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from jiyi.llm.answers import WithoutThoughts, first_choice, text_of
from jiyi.time_limit import start

if TYPE_CHECKING:
    from openai import OpenAI

__all__ = ["Relay", "assemble_stream", "read_stream"]

_T = TypeVar("_T")
_Call = dict[str, Any]  # a tool call being assembled
_OTHER_FIELDS = ("event:", "id:", "retry:", ":")  # of server-sent events, other than data


class _GivenUp(Exception):
    """Nobody waits for the text any more."""


class Relay:
    """Passes on text from the thread that reads a stream to the one that asked for it."""

    def __init__(self) -> None:
        self.has_passed_text = False  # asking again would repeat it
        self._pieces: SimpleQueue[str | None] = SimpleQueue()
        self._given_up = threading.Event()

    def __call__(self, piece: str) -> None:
        """Pass on a piece of text, or raise `_GivenUp`."""
        self.check()
        if piece:
            self.has_passed_text = True
            self._pieces.put(piece)

    def check(self) -> None:
        """Raise `_GivenUp` if nobody waits any more."""
        if self._given_up.is_set():
            raise _GivenUp

    def run(self, call: Callable[[], _T], on_text: Callable[[str], object]) -> _T:
        """Return what `call` returns, handing `on_text` in this thread what it passes on meanwhile.

        `call` runs in a daemon thread and must return by itself. An error of `on_text`, or
        Ctrl-C, is raised at once, and the next piece of text raises `_GivenUp` in `call`.
        """
        outcome = start(call, "jiyi-relayed")
        outcome.add_done_callback(lambda _: self._pieces.put(None))
        try:
            while (piece := self._pieces.get()) is not None:
                on_text(piece)
        finally:
            self._given_up.set()
        return outcome.result()


def read_stream(client: "OpenAI", request: Mapping[str, Any], relay: Relay) -> bytes:
    """Ask for a stream, pass its text without thoughts to the relay, and return the whole answer.

    Raises openai.OpenAIError (the endpoint failed, or its answer broke off) or `_GivenUp`.
    """
    import openai

    assembly, thought_filter = _Assembly(), WithoutThoughts()
    with client.chat.completions.with_streaming_response.create(**request) as response:
        try:
            for line in _split_lines(_read_chunks(response, relay)):
                relay(thought_filter(assembly.feed(line)))
                if assembly.ended:
                    break
            body = assembly.body()
        except _StreamBroken as error:
            raise openai.APIConnectionError(message=str(error), request=response.http_request) from None
        relay(thought_filter.rest())
    return body


def assemble_stream(stream: bytes) -> bytes:
    """Return the answer of a whole stream as if it were not streamed; ValueError: it failed or broke off."""
    assembly = _Assembly()
    for line in _split_lines([stream]):
        assembly.feed(line)
    return assembly.body()


def _read_chunks(response: Any, relay: Relay) -> Iterator[bytes]:
    """Yield the bytes of an answer as they come; errors of the connection become those of `openai`."""
    import openai

    try:
        for chunk in response.iter_bytes():
            relay.check()
            yield chunk
    except (openai.OpenAIError, _GivenUp):
        raise
    # The HTTP package below, and so the class of its errors, depends on the version of openai.
    except Exception as error:
        if "Timeout" in type(error).__name__:
            raise openai.APITimeoutError(response.http_request) from error
        raise openai.APIConnectionError(request=response.http_request) from error


class _StreamBroken(ValueError):
    """The stream ended with an error, or too early; the message says how."""


@dataclass(slots=True)
class _Assembly:
    """Puts an answer together from the lines of a stream, of any endpoint's kind.

    Understood are pieces without an index or an id, arguments as an object, several calls in one piece,
    events without choices, tokens in any event or in none, and an answer in one piece.
    """

    ended: bool = False  # whether the endpoint said that this was all
    _other_lines: list[str] = field(default_factory=list)  # lines that are no events
    _partial_event: str = ""  # an event whose JSON goes on in the next line
    _has_events: bool = False  # whether there was any event
    _text_pieces: list[str] = field(default_factory=list)
    _refusal: str = ""
    _calls: list[_Call] = field(default_factory=list)
    _call_by_index: dict[int, _Call] = field(default_factory=dict)  # the newest call of each index
    _answer_fields: dict[str, Any] = field(default_factory=dict)  # model, usage
    _finish_reason: str | None = None

    def feed(self, line: str) -> str:
        """Return the new text of a line; _StreamBroken: it is an error, ValueError: it holds no text."""
        if not line.startswith("data:"):
            if line.strip() and not line.startswith(_OTHER_FIELDS):
                self._other_lines.append(line)
            return ""
        data = line[len("data:") :].strip()
        if data == "[DONE]":
            self.ended = True
            return ""
        try:
            event = json.loads(self._partial_event + data)
        except (ValueError, RecursionError):
            self._partial_event += data
            return ""
        self._partial_event = ""
        self._has_events = True
        return self._read_event(event) if isinstance(event, dict) else ""

    def body(self) -> bytes:
        """Return the whole answer as if it had not been streamed; _StreamBroken: it is incomplete."""
        if not self._has_events and not self._partial_event:
            return "\n".join(self._other_lines).encode("utf-8", "replace")
        if not self.ended and self._finish_reason is None:
            raise _StreamBroken("it ended without an end")
        message = {"content": "".join(self._text_pieces), "tool_calls": self._calls, "refusal": self._refusal}
        choice = {"message": message, "finish_reason": self._finish_reason}
        return json.dumps({**self._answer_fields, "choices": [choice]}).encode()

    def _read_event(self, event: dict[str, Any]) -> str:
        if error := event.get("error"):
            words = error.get("message") if isinstance(error, dict) else error
            raise _StreamBroken(str(words or error))
        for name in ("model", "usage"):
            if event.get(name):
                self._answer_fields[name] = event[name]
        choice = first_choice(event)
        if isinstance(choice.get("finish_reason"), str):
            self._finish_reason = choice["finish_reason"]
        delta = choice.get("delta") or choice.get("message")
        if not isinstance(delta, dict):
            return ""
        if isinstance(delta.get("refusal"), str):
            self._refusal += delta["refusal"]
        calls = delta.get("tool_calls")
        for piece in calls if isinstance(calls, list) else ():
            if isinstance(piece, dict):
                self._add_call_piece(piece)
        text = text_of(delta.get("content"))
        self._text_pieces.append(text)
        return text

    def _add_call_piece(self, piece: dict[str, Any]) -> None:
        body = piece.get("function")
        body = body if isinstance(body, dict) else {}
        id, name = str(piece.get("id") or ""), str(body.get("name") or "")
        call = self._find_call(piece.get("index"), id, name)
        function, arguments = call["function"], body.get("arguments")
        call["id"] = call["id"] or id
        function["name"] = function["name"] or name
        if isinstance(arguments, str):
            function["arguments"] += arguments
        elif arguments is not None:
            function["arguments"] = json.dumps(arguments, ensure_ascii=False)

    def _find_call(self, index: Any, id: str, name: str) -> _Call:
        """Return the call a piece belongs to; some endpoints count wrongly or not at all."""
        place = index if isinstance(index, int) else -1
        call = self._call_by_index.get(place)
        if call is not None and place < 0:  # no index: an id, or without ids a name, begins the next call
            is_new = id != call["id"] if id else bool(name and call["function"]["name"])
        else:
            is_new = call is None or bool(id and call["id"] and id != call["id"])
        if call is None or is_new:
            call = self._call_by_index[place] = {"id": "", "function": {"name": "", "arguments": ""}}
            self._calls.append(call)
        return call


def _split_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a stream as soon as they are whole; JSON may hold other line ends of Unicode."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r").decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")
