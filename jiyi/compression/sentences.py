"""Turns and sentences, protected spans, and the patterns by which texts are judged."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

from jiyi.records import Message
from jiyi.text.cut import sentence_ends
from jiyi.text.lexicon import fill_parts, lexicon, read_toml

_FENCE = re.compile(r"^[ \t]*(`{3,}+|~{3,}+)[^\n]*\n.*?(?:^[ \t]*\1`*~*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_INDENTED_LINE = re.compile(r"^(?:\t| {4,})\S.*$", re.MULTILINE)
_BRACE = re.compile(r"[{\[](?=\s*[\"{\[\]}\d-]|\s*(?:true|false|null)\b)")
_DECODER = json.JSONDecoder()
_MAX_FAILURES = 100  # braces that open no JSON, before the search ends
_NUMBERED = re.compile(r"^[ \t]*(\d{1,3})[.)、](?=[ \t]+\S)", re.MULTILINE)  # the number of a list's point


@cache
def _protected_pattern() -> re.Pattern[str]:
    read = read_toml(__package__, "protected")
    return re.compile(fill_parts("|".join(read["patterns"].values()), read["parts"]).replace("\n", ""))


def protected_spans(text: str, forced: Sequence[str] = ()) -> list[tuple[int, int]]:
    """Return the spans of ``text`` that are never cut, as ``(start, end)``, in order, without overlap.

    Code in fences and back-ticks, lines indented as code, JSON, URLs, addresses, paths,
    options, ids and names with digits, quotations of at most 120 characters, numbers with
    their units, and what is in ``forced`` as it is written there.
    """
    fences = _FENCE.finditer(text) if "```" in text or "~~~" in text else ()
    indented = _INDENTED_LINE.finditer(text) if "    " in text or "\t" in text else ()
    blocks = [*(match.span() for match in (*fences, *indented)), *_find_json(text)]
    numbers = {match.start(1) for match in _NUMBERED.finditer(text)}
    spans = [match.span() for match in _protected_pattern().finditer(text) if match.start() not in numbers]
    forced_spans = [match.span() for word in forced if word for match in re.finditer(re.escape(word), text)]
    return _merge_spans(sorted([*blocks, *spans, *forced_spans]))


def _find_json(text: str) -> Iterator[tuple[int, int]]:
    """Yield the objects and lists of JSON in a text; plain words in brackets are no list."""
    position = failures = 0
    while failures < _MAX_FAILURES and (brace := _BRACE.search(text, position)):
        try:
            _, position = _DECODER.raw_decode(text, brace.start())
            yield brace.start(), position
        except (ValueError, RecursionError):
            failures, position = failures + 1, brace.end()


def _merge_spans(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged


signs = cache(partial(lexicon, __package__, "signs"))
"""Returns the patterns of `signs.toml`: turns of phrase by which outputs and messages are judged."""

_MAX_SENTENCE_CHARS = 400  # characters from which a sentence is cut at a comma too
_MIN_SENTENCE_CHARS = 6  # characters below which a sentence is one with the next
_SPACE = re.compile(r"\s+")
_COMMA = re.compile(r"[，,、]\s*")
_SPEAKER = re.compile(r"(?P<label>[A-Za-z][\w .'-]{0,30}|[\u4e00-\u9fff]{1,8})\s?[:：](?=\s|[\u4e00-\u9fff])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One sentence of a conversation."""

    text: str  # as it is written, white space before the next one included
    turn: int  # number of the message, or of the line with a speaker, it stands in
    source: int  # number of the message
    speaker: str = ""  # the label the line begins with, or who the message is by
    labelled: bool = False  # its text begins with that label


def split_messages(messages: Sequence[Message]) -> list[Sentence]:
    """Return the sentences of messages in order; those of one message, joined, are its text.

    A sentence never ends inside code, JSON, URLs, numbers and quotations.
    """
    found: list[Sentence] = []
    turn = -1
    for source, message in enumerate(messages):
        turn += 1
        speaker = message.speaker
        before = "\n"
        for place, text in enumerate(_split_sentences(message.search_text)):
            label = _SPEAKER.match(text) if before.endswith("\n") else None
            labelled = label is not None and label["label"].lower() not in ("http", "https")
            if label and labelled:
                turn, speaker = turn + (place > 0), label["label"]
            found.append(Sentence(text=text, turn=turn, source=source, speaker=speaker, labelled=labelled))
            before = text
    return found


def _split_sentences(text: str) -> Iterator[str]:
    """Cut a text after its sentences and the white space that follows them."""
    spans = [span for span in protected_spans(text) if span[1] - span[0] > 1]
    index = start = 0
    for place in sentence_ends(text):
        while index < len(spans) and spans[index][1] < place:
            index += 1
        if place <= start or (index < len(spans) and spans[index][0] < place < spans[index][1]):
            continue
        space = _SPACE.match(text, place)
        end = space.end() if space else place
        if end - start >= _MIN_SENTENCE_CHARS or "\n" in text[start:end]:
            yield from _split_long_sentence(text[start:end])
            start = end
    if start < len(text):
        yield from _split_long_sentence(text[start:])


def _split_long_sentence(sentence: str) -> Iterator[str]:
    if len(sentence) <= _MAX_SENTENCE_CHARS or "```" in sentence or sentence.lstrip()[:1] in ("{", "["):
        yield sentence
        return
    start = 0
    for match in _COMMA.finditer(sentence):
        if match.end() - start >= _MAX_SENTENCE_CHARS // 2:
            yield sentence[start : match.end()]
            start = match.end()
    if start < len(sentence):
        yield sentence[start:]
