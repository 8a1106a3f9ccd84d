"""Shorten long tool outputs: head, tail, errors, rows of JSON that differ, and how to open the whole."""

import json
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import Protocol

from jiyi.compression.compressor import Compressed, Given, as_messages, check_max_tokens, check_whole_number
from jiyi.compression.json_lines import CELL, json_lines
from jiyi.compression.sentences import signs
from jiyi.errors import InputError
from jiyi.prompts import wording
from jiyi.text import TokenCounter, counter_for, language
from jiyi.text.cut import word_break
from jiyi.text.excerpt import Taken

__all__ = ["Page", "ToolOutput", "page"]

_FIRST_SHARE = 0.8  # of the room, for rows of JSON that differ
_HEAD_SHARE, _TAIL_SHARE, _ERROR_SHARE = 0.3, 0.55, 0.95  # of the room, taken up in this order
_CLIPPED, _CLIPPED_ROW = 0.2, 0.35  # of the room for one line, at most; for one row of JSON
_MIN_SIMILAR_LINES = 3  # lines alike in a row from which they are counted instead of shown
_MAX_JSON_CHARS = 10_000_000  # characters of JSON that is read
_MAX_LINES = 20_000  # lines alike are looked for in
_MAX_ERRORS = 2_000  # among the values of a JSON
_CHANGING = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}\b|\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A stretch of a long text."""

    text: str  # the stretch itself
    offset: int  # characters of the text before it
    next_offset: int | None  # where the next page begins; None: the text ends here
    total: int  # characters of the whole text


class _Indexed(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, place: int, /) -> str: ...


@dataclass(slots=True)
class _Line:
    text: str
    count: int = 1  # lines of the output it stands for
    error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """A `Compressor` for the output of one tool call.

    - A short output comes back unchanged.
    - JSON is shown in lines: of its longest list all columns with their values, rows with errors and
      rows that differ; see `jiyi.compression.json_lines`. What the head says of all items is true of all.
    - Of other text: its head, its tail, and the lines that speak of errors, each whole or clipped with
      "…"; lines that differ only in numbers are counted. Omissions are marked in place.
    - The last line says how much is shown and, for a message, the handle by which an agent opens
      the whole: ``open_output(id)``, with the message's id. `page` reads it piece by piece.
    - Within ``max_tokens``; a limit too small for all this gives the beginning alone.
    - Deterministic; a megabyte of log takes a tenth of a second to a second.

    Raises:
        InputError: ``max_tokens`` is below 1.
    """

    counter: TokenCounter = field(default_factory=counter_for, repr=False)
    max_tokens: int = 600  # of what is shown, where a call names no other number

    def __post_init__(self) -> None:
        check_whole_number("max_tokens", self.max_tokens, 1)

    def __call__(
        self, given: Given, *, max_tokens: int | None = None, query: str | None = None
    ) -> Compressed:
        """Return one output, short, as `Compressor`; ``query`` is not looked at."""
        check_max_tokens(max_tokens)
        messages = as_messages(given)
        if len(messages) != 1:
            raise InputError(f"ToolOutput takes one output at a time, not {len(messages)}")
        text = messages[0].text
        before = self.counter.count_text(text)
        limit = self.max_tokens if max_tokens is None else max_tokens
        handle = "" if isinstance(given, str) else messages[0].id
        if before > limit:
            short = self._short(text, before, limit, handle) or self.counter.truncate(text, limit)
        else:
            short = text
        tokens = self.counter.count_text(short)
        return Compressed(
            text=short,
            sources=(messages[0].id,) if text.strip() and short else (),
            tokens_before=before,
            tokens=tokens,
            method="tool_output",
            notes=(f"{before - tokens} of {before} tokens left out",) if before > limit else (),
        )

    def _short(self, text: str, before: int, limit: int, handle: str) -> str:
        """Return the short form with its last line, "" where the limit is too small for one."""
        spoken = language(text)
        words = wording("tool_output", spoken)
        lines = text.count("\n") + 1

        def notice(shown: int) -> str:
            named = words["handle"].format(id=handle) if handle else ""
            return words["notice"].format(shown=shown, total=before, lines=lines, handle=named)

        room = limit - self.counter.count_text(notice(limit)) - 2
        if room < 10:
            return ""
        body = self._json(text, room, spoken)
        if not body:
            rows = _collapse_similar(text, spoken)
            errors = [place for place, row in enumerate(rows) if row.error]
            body = self._chosen(
                [row.text for row in rows],
                room,
                spoken,
                most=max(8, int(_CLIPPED * room)),
                then=[*errors[-1:], *errors[:-1]],  # the last one is worth most
                counts=[row.count for row in rows],
            )
        body = body or self.counter.truncate(text.lstrip(), room)
        whole = f"{body}\n{notice(self.counter.count_text(body))}"
        return whole if body and self.counter.count_text(whole) <= limit else ""

    def _json(self, text: str, room: int, spoken: str) -> str:
        """Return a JSON text as lines that fit, "" if it is no JSON."""
        if text.lstrip()[:1] not in ("{", "[") or len(text) > _MAX_JSON_CHARS:
            return ""
        try:
            made = json_lines(json.loads(text, parse_constant=str), _find_errors, spoken)
        except (ValueError, RecursionError):
            return ""
        most = max(40, int(_CLIPPED_ROW * room))
        count = self.counter.count_text
        cell = 10 * room if len(made) < room // 2 else 0
        while cell >= CELL:
            whole = "\n".join([*made.head, *(made.line(place, cell) for place in range(len(made)))])
            if count(whole) <= room:
                return whole
            cell = cell * 4 // 5
        head = "".join(f"{self._begun(line, most)}\n" for line in made.head)
        if count(head) > room * 2 // 3:
            most = max(40, room // 4)
            head = "".join(f"{self._begun(line, most)}\n" for line in (made.head[0], made.head[-1]))
        if not len(made):
            return head.rstrip()
        rest = room - count(head)
        body = self._chosen(made, rest, spoken, most=most, first=(0, *made.notable))
        return f"{head}{body}" if body else ""

    def _chosen(
        self,
        lines: _Indexed,
        room: int,
        spoken: str,
        *,
        most: int,
        first: Sequence[int] = (),
        then: Sequence[int] = (),
        counts: Sequence[int] = (),
    ) -> str:
        """Return some of the lines in ``room`` tokens, each in ``most``; "" where not one has room.

        These ``first``, then head and tail, ``then`` these, then what follows the head. A line stands
        for as many as ``counts`` says.
        """
        count = self.counter.count_text
        text = cache(lambda place: self._clipped(lines[place], most))
        gap = count(wording("tool_output", spoken)["gap"].format(count=10_000)) + 2
        taken = Taken(lambda place: count(text(place)) + 1, gap, used=gap, ends=(0, len(lines) - 1))
        for place in first:
            taken.take(place, _FIRST_SHARE * room)
        for places, share in ((range(len(lines)), _HEAD_SHARE), (reversed(range(len(lines))), _TAIL_SHARE)):
            for place in places:
                if not taken.take(place, share * room):
                    break
        for place in then:
            taken.take(place, _ERROR_SHARE * room)
        for place in range(len(lines)):
            if not taken.take(place, room):
                break
        return taken.shown(
            lambda places: _join_lines({place: text(place) for place in places}, len(lines), counts, spoken),
            lambda body: count(body) <= room,
        )

    def _begun(self, line: str, most: int) -> str:
        """Return a line, of one that is too long the beginning: a gap inside would join what is apart."""
        head = self.counter.truncate(line[: 20 * most], most)
        return line if head == line else f"{line[: word_break(line, len(head)) or len(head)]}…"

    def _clipped(self, line: str, most: int) -> str:
        """Return a line, the beginning and the end of one that is too long, each of whole words."""
        if len(line) <= 2 * most or self.counter.count_text(line[: 20 * most]) <= most:
            if len(line) <= 20 * most:
                return line
            head, end = self.counter.truncate(line, most), len(line)
        else:
            head, end = self.counter.truncate(line[: 20 * most], most * 2 // 3), len(line) - most
        head = line[: word_break(line, len(head)) or len(head)]
        start = word_break(line, max(end, len(head)))
        return f"{head}…{line[start:] if start > len(head) else ''}"


def page(text: str, offset: int = 0, max_tokens: int = 1_000, counter: TokenCounter | None = None) -> Page:
    """Return the stretch of ``text`` that begins at ``offset`` and takes at most ``max_tokens``.

    It ends after a line where one ends in its second half. Pages read one after the other are the whole text.

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


def _collapse_similar(text: str, spoken: str) -> list[_Line]:
    """Return the lines; of those alike but for their numbers the first, the last and how many."""
    found: list[_Line] = []
    rows = [row.rstrip() for row in text.split("\n")]
    forms = [_CHANGING.sub("#", row[:500]) for row in rows[:_MAX_LINES]]
    place = 0
    while place < len(rows):
        end = place + 1
        while end < len(forms) and place < len(forms) and forms[end] == forms[place]:
            end += 1
        first = rows[place]
        if end - place >= _MIN_SIMILAR_LINES and first:
            found.append(_Line(first, 1, _is_error(first)))
            found.append(
                _Line(wording("tool_output", spoken)["again"].format(count=end - place - 1), end - place - 1)
            )
        else:
            found += [_Line(row, 1, _is_error(row)) for row in rows[place:end] if row]
        place = end
    return found


def _is_error(line: str) -> bool:
    return bool(signs().error.search(line[:2_000].lower())) and not signs().no_error.search(line[:2_000])


def _find_errors(texts: Sequence[str]) -> set[int]:
    """Return the places of texts that speak of errors, the first 2,000 of them.

    Searched as one text: there are few errors among many values.
    """
    small = [text[:2_000].lower() for text in texts]
    starts = [0, *accumulate(len(text) + 1 for text in small)]
    joined = "\n".join(small)
    found: set[int] = set()
    at = 0
    while len(found) < _MAX_ERRORS and (match := signs().error.search(joined, at)):
        place = bisect_right(starts, match.start()) - 1
        if _is_error(texts[place]):
            found.add(place)
        at = starts[place + 1]
    return found


def _join_lines(shown: Mapping[int, str], total: int, counts: Sequence[int], spoken: str) -> str:
    """Return the lines shown, with a line for each gap."""
    out: list[str] = []
    before = -1
    for place in [*shown, total]:
        if missing := sum(counts[before + 1 : place]) if counts else place - before - 1:
            out.append(wording("tool_output", spoken)["gap"].format(count=missing))
        if place < total:
            out.append(shown[place])
        before = place
    return "\n".join(out)
