"""Long tool outputs made short: head, tail, errors, the schema of JSON, and where the whole is."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jiyi.compression.compressor import Compressed, Given, as_messages
from jiyi.compression.given import check_max_tokens
from jiyi.compression.json_outline import outline
from jiyi.errors import InputError
from jiyi.text import TokenCounter, counter_for, language
from jiyi.text.cut import word_break

__all__ = ["Page", "ToolOutput", "page"]

_HEAD_SHARE, _TAIL_SHARE, _ERROR_SHARE = 0.3, 0.55, 0.95  # of the room, taken up in this order
_CLIPPED = 0.2  # of the room for one line, at most
_ALIKE = 3  # lines alike in a row from which they are counted instead of shown
_MOST_JSON = 20_000_000  # characters of JSON that is read
_MOST_LINES = 20_000  # lines alike are looked for in
_ERROR = re.compile(
    r"error|exception|traceback|fail(?:ed|ure)|fatal|panic|critical|denied|refused|timed? ?out"
    r"|not found|cannot|segfault"
    r"|killed|oom|unable to|no such|undefined|assert|错误|失败|异常|超时|拒绝|无法|找不到|不存在|崩溃"
    r"|致命|未能",
    re.IGNORECASE,
)
_NO_ERROR = re.compile(
    r"\b(?:0|no) (?:error|failure|exception|failed)|without error|errors?[=: ]+0\b|失败[:： ]*0\b", re.I
)
_CHANGING = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}\b|\d+")
_NOTICE = {
    "en": "[{shown} of {total} tokens shown, {lines} lines in all{handle}]",
    "zh": "[共 {lines} 行，{total} 个 token，这里只有 {shown} 个{handle}]",
}
_HANDLE = {"en": '; the whole: open_output("{id}")', "zh": '；看全文：open_output("{id}")'}
_GAP = {"en": "… {count} lines left out", "zh": "… 省略 {count} 行"}
_AGAIN = {"en": "… {count} more lines like this", "zh": "… 同样的行还有 {count} 条"}
_SCHEMA = {"en": "JSON, schema: ", "zh": "JSON，结构："}
_FIRST = {"en": "first item: ", "zh": "第一项："}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A stretch of a long text."""

    text: str  # the stretch itself
    offset: int  # characters of the text before it
    next_offset: int | None  # where the next page begins; None: the text ends here
    total: int  # characters of the whole text


@dataclass(slots=True)
class _Line:
    text: str  # as shown
    count: int = 1  # lines of the output it stands for
    error: bool = False


@dataclass(slots=True)
class _Taken:
    """Lines taken within a room of tokens."""

    lines: list[_Line]
    costs: list[int]
    used: int = 0
    places: dict[int, None] = field(default_factory=dict)  # in the order they were taken

    def take(self, place: int, limit: float) -> bool:
        """Take a line if it stays within ``limit``; say whether it is in."""
        if place in self.places:
            return True
        if self.used + self.costs[place] > limit:
            return False
        self.used += self.costs[place]
        self.places[place] = None
        return True


class ToolOutput:
    """A `Compressor` for the output of one tool call.

    - A short output comes back unchanged.
    - JSON is shown as its schema (keys, types, lengths, ranges) with its first item, never cut.
    - Of other text: its head, its tail, and the lines that speak of errors, each whole or clipped with
      "…"; lines alike but for their numbers are counted. What is left out is said where it was.
    - The last line says how much is shown and, for a message, the handle by which an agent opens
      the whole: ``open_output(id)``, with the message's id. `page` reads it piece by piece.
    - Within ``max_tokens``; a limit too small for all this gives the beginning alone.
    - Deterministic; a megabyte of log takes a tenth of a second to a second.

    Args:
        counter: counts the tokens.
        max_tokens: most tokens of what is shown, where a call names no other number.

    Raises:
        InputError: ``max_tokens`` is below 1.
    """

    def __init__(self, *, counter: TokenCounter | None = None, max_tokens: int = 600) -> None:
        check_max_tokens(max_tokens)
        self._counter = counter or counter_for()
        self._max_tokens = max_tokens

    def __repr__(self) -> str:
        return f"ToolOutput(max_tokens={self._max_tokens})"

    def __call__(
        self,
        given: Given,
        *,
        max_tokens: int | None = None,
        query: str | None = None,  # noqa: ARG002
    ) -> Compressed:
        """Return the output, short; ``query`` is not looked at.

        Raises:
            InputError: ``given`` is not one text or message, or ``max_tokens`` is below 1.
        """
        check_max_tokens(max_tokens)
        messages = as_messages(given)
        if len(messages) != 1:
            raise InputError(f"ToolOutput takes one output at a time, not {len(messages)}")
        text = messages[0].text
        before = self._counter.count_text(text)
        limit = self._max_tokens if max_tokens is None else max_tokens
        sources = (messages[0].id,) if text.strip() else ()
        if before <= limit:
            return Compressed(
                text=text, sources=sources, tokens_before=before, tokens=before, method="tool_output"
            )
        handle = "" if isinstance(given, str) else messages[0].id
        short = self._short(text, before, limit, handle) or self._counter.truncate(text, limit)
        tokens = self._counter.count_text(short)
        return Compressed(
            text=short,
            sources=sources if short else (),
            tokens_before=before,
            tokens=tokens,
            method="tool_output",
            notes=(f"{before - tokens} of {before} tokens left out",),
        )

    def _short(self, text: str, before: int, limit: int, handle: str) -> str:
        """Return the short form with its last line, "" where the limit is too small for one."""
        spoken = language(text)
        lines = text.count("\n") + 1

        def notice(shown: int) -> str:
            named = _HANDLE[spoken].format(id=handle) if handle else ""
            return _NOTICE[spoken].format(shown=shown, total=before, lines=lines, handle=named)

        room = limit - self._counter.count_text(notice(limit)) - 2
        if room < 10:
            return ""
        body = self._json(text, room, spoken) or self._lines(text, room, spoken)
        whole = f"{body}\n{notice(self._counter.count_text(body))}"
        return whole if body and self._counter.count_text(whole) <= limit else ""

    def _json(self, text: str, room: int, spoken: str) -> str:
        """Return the schema of a JSON text and its first item, "" where it is none."""
        if text.lstrip()[:1] not in ("{", "[") or len(text) > _MOST_JSON:
            return ""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return ""
        errors = [line for line in _error_values(value) if self._counter.count_text(line) <= room // 4][:3]
        for depth in range(6, -1, -1):
            shown = _SCHEMA[spoken] + outline(value, depth)
            first = _FIRST[spoken] + json.dumps(_first(value), ensure_ascii=False)
            for parts in ([shown, first, *errors], [shown, *errors], [shown]):
                body = "\n".join(parts)
                if self._counter.count_text(body) <= room:
                    return body
        return ""

    def _lines(self, text: str, room: int, spoken: str) -> str:
        """Return head, tail and errors of a text of lines."""
        lines = _counted(text, spoken)
        most = max(8, int(_CLIPPED * room))
        for line in lines:
            line.text = self._clipped(line.text, most)
        gap = self._counter.count_text(_GAP[spoken].format(count=10_000)) + 2
        count = self._counter.count_text
        taken = _Taken(lines, [count(line.text) + 1 for line in lines], used=2 * gap)
        tail = reversed(range(len(lines)))
        errors = [place for place, line in enumerate(lines) if line.error]
        for places, share in ((range(len(lines)), _HEAD_SHARE), (tail, _TAIL_SHARE)):
            for place in places:
                if not taken.take(place, share * room):
                    break
        for place in _spread(errors):
            if taken.used + gap < _ERROR_SHARE * room and taken.take(place, _ERROR_SHARE * room - gap):
                taken.used += 0 if place - 1 in taken.places else gap
        for place in range(len(lines)):
            if not taken.take(place, room):
                break
        order = list(taken.places)
        while order:
            body = _joined(lines, sorted(order), spoken)
            if count(body) <= room:
                return body
            order = order[: len(order) * 9 // 10]
        return self._counter.truncate(text.lstrip(), room)

    def _clipped(self, line: str, most: int) -> str:
        """Return a line, the beginning and the end of one that is too long, each of whole words."""
        if len(line) <= 2 * most or self._counter.count_text(line[: 20 * most]) <= most:
            if len(line) <= 20 * most:
                return line
            head, end = self._counter.truncate(line, most), len(line)
        else:
            head, end = self._counter.truncate(line[: 20 * most], most * 2 // 3), len(line) - most
        head = line[: word_break(line, len(head)) or len(head)]
        start = word_break(line, max(end, len(head)))
        return f"{head}…{line[start:] if start > len(head) else ''}"


def page(text: str, offset: int = 0, max_tokens: int = 1_000, counter: TokenCounter | None = None) -> Page:
    """Return the stretch of ``text`` that begins at ``offset`` and takes at most ``max_tokens``.

    It ends behind a line where one ends in its second half. Pages read one after the other,
    each from the ``next_offset`` of the one before, are the whole text.

    Raises:
        InputError: ``offset`` is not a place in the text, or ``max_tokens`` is below 1.
    """
    check_max_tokens(max_tokens)
    if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset <= len(text):
        raise InputError(f"offset={offset!r} must be a whole number from 0 to {len(text)}, the text's length")
    counter = counter or counter_for()
    window = text[offset : offset + 40 * max_tokens + 400]
    found = counter.truncate(window, max_tokens)
    if not found and window:
        found = window[0]  # a character can take several tokens; a page never stands still
    end = offset + len(found)
    if end < len(text) and (line := found.rfind("\n") + 1) > len(found) // 2:
        end = offset + line
    return Page(
        text=text[offset:end], offset=offset, next_offset=end if end < len(text) else None, total=len(text)
    )


def _counted(text: str, spoken: str) -> list[_Line]:
    """Return the lines; of those alike but for their numbers the first, the last and how many."""
    found: list[_Line] = []
    rows = [row.rstrip() for row in text.split("\n")]
    forms = [_CHANGING.sub("#", row[:500]) for row in rows[:_MOST_LINES]]
    place = 0
    while place < len(rows):
        end = place + 1
        while end < len(forms) and place < len(forms) and forms[end] == forms[place]:
            end += 1
        first = rows[place]
        if end - place >= _ALIKE and first:
            found.append(_Line(first, 1, _is_error(first)))
            found.append(_Line(_AGAIN[spoken].format(count=end - place - 1), end - place - 1))
        else:
            found += [_Line(row, 1, _is_error(row)) for row in rows[place:end] if row]
        place = end
    return found


def _is_error(line: str) -> bool:
    return bool(_ERROR.search(line[:2_000])) and not _NO_ERROR.search(line[:2_000])


def _spread(errors: list[int]) -> list[int]:
    """Return the errors in the order they are worth showing: the last, the first, then the others."""
    return [*errors[-1:], *errors[:-1]]


def _joined(lines: list[_Line], places: Sequence[int], spoken: str) -> str:
    out: list[str] = []
    before = -1
    for place in [*places, len(lines)]:
        if missing := sum(line.count for line in lines[before + 1 : place]):
            out.append(_GAP[spoken].format(count=missing))
        if place < len(lines):
            out.append(lines[place].text)
        before = place
    return "\n".join(out)


def _first(value: Any) -> Any:
    """Return the first item of a list, or of the first list in an object."""
    if isinstance(value, list):
        return value[0] if value else None
    if isinstance(value, dict):
        for inner in value.values():
            if isinstance(inner, list) and inner:
                return inner[0]
    return value


def _error_values(value: Any) -> list[str]:
    """Return the top-level entries of an object that speak of errors, as JSON."""
    if not isinstance(value, dict):
        return []
    return [
        json.dumps({key: inner}, ensure_ascii=False)
        for key, inner in value.items()
        if isinstance(inner, str | int | float) and (_ERROR.search(key) or _is_error(str(inner)))
    ]
