"""Points of a conversation for a summary, each on one line with its speaker."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import Any

from jiyi.compression.sentences import signs
from jiyi.prompts import Language, wording
from jiyi.records import Message, ToolCall
from jiyi.records.atoms import atoms
from jiyi.text import salience, sentences
from jiyi.text.cut import clip, one_line, split_line

_LANGUAGES: tuple[Language, ...] = ("zh", "en")
_COLON = {"zh": "：", "en": ": "}
_MAX_POINT_CHARS = {"zh": 100, "en": 220}  # characters of a point
_MAX_ARGUMENT_CHARS, _MAX_OUTCOME_CHARS, _MAX_OUTPUT_LINES = 60, 160, 200
_BULLET_MARK = re.compile(r"^\s*(?:[-*•·]|\d{1,2}[.)、]|#{1,6})\s+")
_PART_BREAKS = (re.compile(r"[，；：;]|[,:](?=\s)"), re.compile(" "))  # where a long sentence is split
_WORD_CHARACTER = re.compile(r"\w")
_DAY = re.compile(r"\[(\d{4}-\d\d-\d\d)\] ")  # before the first point of a day
_QUESTION_END = re.compile(r"[?？]\W*\Z|[吗呢]\W*\Z")
_TOOL_WORTH, _FAILED_WORTH = 0.7, 0.8
_QUESTION_BONUS, _ANSWER_BONUS = 0.08, 0.1
_MIN_SALIENCE = 0.4  # below this, greetings, nods and phrases
_KEPT_WORTH = 0.9  # decisions and to-dos, which fade least
_FADE_FACTOR, _KEPT_FADE_FACTOR = 0.9, 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A statement or action."""

    words: str  # in one line, without the speaker
    label: str  # who, with the colon; "" where ``words`` name it
    sources: tuple[str, ...]  # ids of the messages it is from; none for the summary before
    worth: float  # how much it is worth keeping, about 0 to 1
    message: int  # the place of its message; below 0 for the summary before
    place: int  # its place in that message
    day: str = ""  # when it was said, YYYY-MM-DD; "" if unknown

    @property
    def text(self) -> str:
        """The point as it stands in a summary, without the bullet."""
        return self.label + self.words


def previous_points(previous: str, messages: Sequence[Message] = ()) -> list[Point]:
    """Return the points of a summary; they are worth a little less than when they were new.

    What they lose is not added up: a point is judged again each time, and decisions and
    to-dos lose next to nothing. ``messages`` give the names of speakers.
    """
    lines = bullets(previous)
    labels = set[str]()
    for language in _LANGUAGES:
        labels |= {_label(message, language) for message in messages}
        labels |= {word + _COLON[language] for word in wording("speaker", language).values()}
    points, day = [], ""
    for place, dated in enumerate(lines):
        mark = _DAY.match(dated)
        day, line = (mark[1], dated[mark.end() :]) if mark else (day, dated)
        label = next((label for label in labels if line.startswith(label)), "")
        words = line[len(label) :]
        worth = salience(words)
        worth *= _KEPT_FADE_FACTOR if worth >= _KEPT_WORTH else _FADE_FACTOR
        at = place - len(lines)
        points.append(Point(words=words, label=label, sources=(), worth=worth, message=at, place=0, day=day))
    return points


def find_points(messages: Sequence[Message], language: Language, zone: tzinfo = UTC) -> list[Point]:
    """Return the points of messages, in their order; their days are those of a time zone.

    The words of a message are taken sentence by sentence, long ones in parts; a tool call
    and its result are one point: what was called, with what, and what came of it.
    """
    points: list[Point] = []
    tools = _make_tool_points(messages, language)
    answers = False
    for place, message in enumerate(messages):
        if message.role != "tool":
            points += _read_points(message, place, language, answers=answers and message.role == "assistant")
        points += tools.get(place, ())
        if message.role == "user":
            answers = bool(_QUESTION_END.search(message.text[-40:]))
    return [replace(point, day=_day(messages[point.message], zone)) for point in points]


def bullets(text: str) -> list[str]:
    """Return the bullet points of a summary without their marks, one for each line with words."""
    lines = (_BULLET_MARK.sub("", line).strip() for line in text.splitlines())
    return [line for line in lines if _WORD_CHARACTER.search(line)]


def labelled(messages: Sequence[Message], language: Language, zone: tzinfo = UTC) -> Iterator[str]:
    """Yield messages as text, complete, each with its speaker; tool calls by name and arguments.

    The first of each day begins with its date.
    """
    day = ""
    for message in messages:
        before, day = day, _day(message, zone)
        date = f"[{day}] " if day not in ("", before) else ""
        calls = [f"→ {call.name}({call.arguments})" for call in message.tool_calls]
        text = "\n".join(filter(None, [_message_text(message), *calls]))
        yield date + _label(message, language) + text


def _day(message: Message, zone: tzinfo) -> str:
    return message.created_at.astimezone(zone).date().isoformat() if message.created_at else ""


def _message_text(message: Message) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.text
    other = [f"[{part['type']}]" for part in message.content if part["type"] not in ("text", "refusal")]
    return "\n".join(filter(None, [message.text, *other]))


def _label(message: Message, language: Language) -> str:
    speaker = wording("speaker", language)[message.role]
    if message.name:
        name = " ".join(message.name.split())
        speaker = f"{speaker} {name}" if message.role == "tool" else name
    return speaker + _COLON[language]


def _read_points(message: Message, place: int, language: Language, *, answers: bool) -> Iterator[Point]:
    number = 0
    said: Any = {"label": _label(message, language), "sources": (message.id,), "message": place}
    for sentence in sentences(_message_text(message)):
        is_nod = signs().nod.match(sentence) is not None and salience(sentence) < _MIN_SALIENCE
        for words in _split_sentence(sentence, _MAX_POINT_CHARS[language]):
            worth = salience(sentence if is_nod else words)
            if message.importance is not None:
                worth = (worth + message.importance) / 2
            if worth >= _MIN_SALIENCE and message.role == "user" and _QUESTION_END.search(words[-40:]):
                worth += _QUESTION_BONUS
            elif worth >= _MIN_SALIENCE and answers:
                worth, answers = worth + _ANSWER_BONUS, False
            yield Point(words=words, worth=worth, place=number, **said)
            number += 1


def _split_sentence(sentence: str, longest: int) -> Iterator[str]:
    """Yield a sentence on one line, or in parts if it is long."""
    if sentence.startswith("```"):
        code_lines = [line.strip() for line in sentence.splitlines()[1:] if line.strip(" `\t")]
        if code_lines:
            yield clip(code_lines[0], longest) + (" …" if len(code_lines) > 1 else "")
        return
    line = " ".join(signs().nod.sub("", _BULLET_MARK.sub("", sentence)).split())
    if len(line) > longest:
        yield from (part.strip() for part in split_line(line, longest, _PART_BREAKS))
    elif _WORD_CHARACTER.search(line):
        yield line


def _make_tool_points(messages: Sequence[Message], language: Language) -> dict[int, list[Point]]:
    """Return the points of tool calls and results, by the place of the call, else of the result."""
    points: dict[int, list[Point]] = {}
    for atom in atoms(messages):
        first = messages[atom.first]
        results = [messages[i] for i in atom.indices if messages[i].role == "tool"]
        if first.role == "tool":
            points[atom.first] = [_make_tool_point(None, None, first, (atom.first, 0), language)]
        for number, call in enumerate(first.tool_calls):
            answer = next((result for result in results if result.tool_call_id == call.id), None)
            if answer is not None:
                results.remove(answer)
            point = _make_tool_point(first, call, answer, (atom.first, 1_000 + number), language)
            points.setdefault(atom.first, []).append(point)
    return points


def _make_tool_point(
    caller: Message | None,
    call: ToolCall | None,
    result: Message | None,
    at: tuple[int, int],
    language: Language,
) -> Point:
    name = call.name if call else (result.name if result else None) or ""
    arguments = f"({shown})" if call and (shown := _format_arguments(call.arguments)) else ""
    outcome, failed = _find_outcome(_message_text(result)) if result is not None else ("", False)
    action = " ".join(f"{wording('speaker', language)['tool']} {name}{arguments}".split())
    worth = _FAILED_WORTH if failed else _TOOL_WORTH
    if result is not None and result.importance is not None:
        worth = (worth + result.importance) / 2
    sources, (message, place) = tuple(m.id for m in (caller, result) if m is not None), at
    words = f"{action} → {outcome or '…'}" if outcome or result is None else action
    return Point(words=words, label="", sources=sources, worth=worth, message=message, place=place)


def _format_arguments(written: str) -> str:
    try:
        parsed = json.loads(written)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        values = (v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in parsed.values())
        written = ", ".join(values)
    return one_line(written, _MAX_ARGUMENT_CHARS)


def _find_outcome(output: str) -> tuple[str, bool]:
    """Return the line of an output that tells the outcome, and whether it is a failure."""
    lines = [line for line in output.splitlines() if _WORD_CHARACTER.search(line)]
    failures = [line for line in lines if signs().fails.search(line[:1_000])]
    if failures:
        chosen = failures[-1]
    elif len(lines) > 1:
        ends = lines[: _MAX_OUTPUT_LINES // 2] + lines[_MAX_OUTPUT_LINES // 2 :][-_MAX_OUTPUT_LINES // 2 :]
        chosen = max(reversed(ends), key=salience)
    else:
        chosen = lines[0] if lines else ""
        if chosen.lstrip().startswith(("{", "[")) and len(chosen) > _MAX_OUTCOME_CHARS:
            chosen = ""  # the beginning of data tells nothing
    return one_line(chosen, _MAX_OUTCOME_CHARS), bool(failures)
