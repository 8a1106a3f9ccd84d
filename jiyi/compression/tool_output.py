"""Shorten long tool outputs: head, tail, errors, rows of JSON that differ, and how to open the whole."""

import json
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, groupby

from jiyi.compression.compressor import Compressed, Compressible, Given, Limit
from jiyi.compression.json_lines import CELL, JsonLines, json_lines
from jiyi.compression.sentences import signs
from jiyi.errors import InputError
from jiyi.prompts import wording
from jiyi.records import check_tokens
from jiyi.text import TokenCounter, counter_for
from jiyi.text import language as language_of
from jiyi.text.cut import word_break
from jiyi.text.excerpt import Taken

__all__ = ["Page", "ToolOutput", "page"]

_FIRST_SHARE = 0.8  # of the room, for rows of JSON that differ
_HEAD_SHARE, _TAIL_SHARE, _ERROR_SHARE = 0.3, 0.55, 0.95  # of the room, taken up in this order
_LINE_SHARE, _ROW_SHARE = 0.2, 0.35  # of the room for one line, at most; for one row of JSON
_MIN_SIMILAR_LINES = 3  # similar lines in a row, from which they are counted instead of shown
_MAX_JSON_CHARS = 10_000_000  # characters of JSON that is read
_MAX_LINES = 20_000  # searched for similar lines
_MAX_ERRORS = 2_000  # among the values of a JSON
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}\b|\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A stretch of a long text."""

    text: str  # the stretch itself
    offset: int  # characters of the text before it
    next_offset: int | None  # where the next page begins; None: the text ends here
    total: int  # characters of the whole text


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """A `Compressor` for the output of one tool call.

    - JSON is shown in lines by `json_lines`: first rows with errors and rows that differ.
    - Of other text: its head, its tail, and the lines that speak of errors, each whole or clipped with "…";
      lines that differ only in numbers are counted. Omissions are marked in place.
    - The last line says how much is shown and, for a message, the handle by which an agent opens the whole:
      ``open_output(id)``, with the message's id. `page` reads it piece by piece.
    - A limit too small for all this gives the beginning alone.
    - Deterministic; a megabyte of log takes a tenth of a second to a second.

    InputError: ``max_tokens`` is below 1.
    """

    counter: TokenCounter = field(default_factory=counter_for, repr=False)
    max_tokens: int = 600  # of what is shown, where a call names no other number

    def __post_init__(self) -> None:
        check_tokens("max_tokens", self.max_tokens)

    def __call__(self, given: Given, *, max_tokens: Limit = None, query: str | None = None) -> Compressed:
        """Return one output, short, as `Compressor`; ``query`` is ignored."""
        texts = Compressible(given, self.counter, "tool_output", max_tokens)
        if len(texts.messages) != 1:
            raise InputError(f"ToolOutput takes one output at a time, not {len(texts.messages)}")
        limit = self.max_tokens if max_tokens is None else max_tokens
        if texts.tokens <= limit:
            return texts.unchanged()
        handle = "" if isinstance(given, str) else texts.messages[0].id
        short = self._shorten(texts.whole, texts.tokens, limit, handle)
        short = short or self.counter.truncate(texts.whole, limit)
        left_out = f"{texts.tokens - self.counter.count_text(short)} of {texts.tokens} tokens left out"
        return texts.result(short, texts.unchanged().sources if short else (), left_out)

    def _shorten(self, text: str, before: int, limit: int, handle: str) -> str:
        """Return the short form with its last line, "" where the limit is too small for one."""
        language = language_of(text)
        words = wording("tool_output", language)
        lines = text.count("\n") + 1

        def notice(shown: int) -> str:
            hint = words["handle"].format(id=handle) if handle else ""
            return words["notice"].format(shown=shown, total=before, lines=lines, handle=hint)

        room = limit - self.counter.count_text(notice(limit)) - 2
        if room < 10:
            return ""
        body = self._shorten_json(text, room, language)
        if not body:
            rows, counts = _collapse_similar(text, language)
            errors = [place for place, row in enumerate(rows) if _is_error(row)]
            body = self._choose_lines(
                rows,
                room,
                language,
                line_limit=max(8, int(_LINE_SHARE * room)),
                then=[*errors[-1:], *errors[:-1]],  # the last one is worth most
                counts=counts,
            )
        body = body or self.counter.truncate(text.lstrip(), room)
        shortened = f"{body}\n{notice(self.counter.count_text(body))}"
        return shortened if body and self.counter.count_text(shortened) <= limit else ""

    def _shorten_json(self, text: str, room: int, language: str) -> str:
        """Return a JSON text as lines that fit, "" if it is no JSON."""
        if text.lstrip()[:1] not in ("{", "[") or len(text) > _MAX_JSON_CHARS:
            return ""
        try:
            table = json_lines(json.loads(text, parse_constant=str), _find_errors, language)
        except (ValueError, RecursionError):
            return ""
        count = self.counter.count_text
        cell = 10 * room if len(table) < room // 2 else 0
        while cell >= CELL:
            whole = "\n".join([*table.head, *(table.line(place, cell) for place in range(len(table)))])
            if count(whole) <= room:
                return whole
            cell = cell * 4 // 5
        shown, line_limit = table.head, max(40, int(_ROW_SHARE * room))
        head = "".join(f"{self._clip_end(line, line_limit)}\n" for line in shown)
        if count(head) > room * 2 // 3:
            shown, line_limit = (shown[0], shown[-1]), max(40, room // 4)
            head = "".join(f"{self._clip_end(line, line_limit)}\n" for line in shown)
        if not len(table):
            return head.rstrip()
        rest, first = room - count(head), (0, *table.notable)
        body = self._choose_lines(table, rest, language, line_limit=line_limit, first=first)
        return f"{head}{body}" if body else ""

    def _choose_lines(
        self,
        lines: Sequence[str] | JsonLines,
        room: int,
        language: str,
        *,
        line_limit: int,
        first: Sequence[int] = (),
        then: Sequence[int] = (),
        counts: Sequence[int] = (),
    ) -> str:
        """Return some of the lines in ``room`` tokens, each in ``line_limit``; "" if none fits.

        Taken in order: ``first``, head, tail, ``then``, more lines after the head. ``counts`` says how many
        lines of the output each line stands for.
        """
        count, places = self.counter.count_text, range(len(lines))
        text = cache(lambda place: self._clip_middle(lines[place], line_limit))
        gap = count(wording("tool_output", language)["gap"].format(count=10_000)) + 2
        taken = Taken(lambda place: count(text(place)) + 1, gap, used=gap, ends=(0, len(lines) - 1))
        for place in first:
            taken.take(place, _FIRST_SHARE * room)
        taken.take_while(places, _HEAD_SHARE * room)
        taken.take_while(reversed(places), _TAIL_SHARE * room)
        for place in then:
            taken.take(place, _ERROR_SHARE * room)
        taken.take_while(places, room)
        return taken.shown(
            lambda places: _join_lines({n: text(n) for n in places}, len(lines), counts, language),
            lambda body: count(body) <= room,
        )

    def _clip_end(self, line: str, line_limit: int) -> str:
        """Return a line; of a long one the beginning: a gap inside could join unrelated words."""
        head = self.counter.truncate(line[: 20 * line_limit], line_limit)
        return line if head == line else f"{line[: word_break(line, len(head)) or len(head)]}…"

    def _clip_middle(self, line: str, line_limit: int) -> str:
        """Return a line; of a long one beginning and end, both cut between words."""
        if len(line) <= 2 * line_limit or self.counter.count_text(line[: 20 * line_limit]) <= line_limit:
            if len(line) <= 20 * line_limit:
                return line
            head, end = self.counter.truncate(line, line_limit), len(line)
        else:
            head = self.counter.truncate(line[: 20 * line_limit], line_limit * 2 // 3)
            end = len(line) - line_limit
        head = line[: word_break(line, len(head)) or len(head)]
        start = word_break(line, max(end, len(head)))
        return f"{head}…{line[start:] if start > len(head) else ''}"


def page(text: str, offset: int = 0, max_tokens: int = 1_000, counter: TokenCounter | None = None) -> Page:
    """Return the stretch of ``text`` that begins at ``offset`` and takes at most ``max_tokens``.

    It ends after a line where one ends in its second half. Pages read one after the other are the whole text.
    InputError: ``offset`` is not a place in the text, or ``max_tokens`` is below 1.
    """
    check_tokens("max_tokens", max_tokens)
    if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset <= len(text):
        raise InputError(f"offset={offset!r} must be a whole number from 0 to {len(text)}, the text's length")
    counter = counter or counter_for()
    window = text[offset : offset + 40 * max_tokens + 400]
    stretch = counter.truncate(window, max_tokens)
    if not stretch and window:
        stretch = window[0]  # a character can take several tokens; a page never stands still
    end = offset + len(stretch)
    if end < len(text) and (line := stretch.rfind("\n") + 1) > len(stretch) // 2:
        end = offset + line
    following = end if end < len(text) else None
    return Page(text=text[offset:end], offset=offset, next_offset=following, total=len(text))


def _collapse_similar(text: str, language: str) -> tuple[list[str], list[int]]:
    """Return the lines and how many each stands for; of a run that differs only in numbers, the first."""
    lines: list[str] = []
    counts: list[int] = []
    rows = [row.rstrip() for row in text.split("\n")]
    forms = [_VARYING.sub("#", row[:500]) for row in rows[:_MAX_LINES]]
    numbers = groupby(range(len(rows)), key=lambda n: forms[n] if n < len(forms) else n)
    for run in ([rows[n] for n in same] for _, same in numbers):
        if len(run) >= _MIN_SIMILAR_LINES and run[0]:
            lines += [run[0], wording("tool_output", language)["again"].format(count=len(run) - 1)]
            counts += [1, len(run) - 1]
        else:
            lines += filter(None, run)
            counts += [1] * (len(lines) - len(counts))
    return lines, counts


def _is_error(line: str) -> bool:
    return bool(signs().error.search(line[:2_000].lower())) and not signs().no_error.search(line[:2_000])


def _find_errors(texts: Sequence[str]) -> set[int]:
    """Return the places of the first 2,000 texts that speak of errors.

    They are searched as one text, which is fast where errors are few.
    """
    small = [text[:2_000].lower() for text in texts]
    starts = [0, *accumulate(len(text) + 1 for text in small)]
    joined = "\n".join(small)
    places: set[int] = set()
    position = 0
    while len(places) < _MAX_ERRORS and (match := signs().error.search(joined, position)):
        place = bisect_right(starts, match.start()) - 1
        if _is_error(texts[place]):
            places.add(place)
        position = starts[place + 1]
    return places


def _join_lines(shown: Mapping[int, str], total: int, counts: Sequence[int], language: str) -> str:
    """Return the lines shown, with a line for each gap."""
    lines: list[str] = []
    before = -1
    for place in [*shown, total]:
        if missing := sum(counts[before + 1 : place]) if counts else place - before - 1:
            lines.append(wording("tool_output", language)["gap"].format(count=missing))
        if place < total:
            lines.append(shown[place])
        before = place
    return "\n".join(lines)
