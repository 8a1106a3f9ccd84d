"""Turns and sentences, which relevance and extraction choose from, and the signs by which they are judged."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

from jiyi.compression.protected import protected_spans
from jiyi.records import Message
from jiyi.text.cut import sentence_ends
from jiyi.text.lexicon import lexicon

__all__ = ["Sentence", "sentences_of", "signs"]

signs = cache(partial(lexicon, __package__, "signs"))
"""Returns the patterns of `signs.toml`: turns of phrase by which outputs and messages are judged."""

_LONGEST = 400  # characters from which a sentence is cut at a comma too
_SHORTEST = 6  # characters below which a sentence is one with the next
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


def sentences_of(messages: Sequence[Message]) -> list[Sentence]:
    """Return the sentences of messages in order; those of one message, joined, are its text.

    A sentence never ends inside code, JSON, URLs, numbers and quotations.
    """
    found: list[Sentence] = []
    turn = -1
    for source, message in enumerate(messages):
        turn += 1
        speaker = message.name or message.role
        first = True
        for text in _sentences(message.search_text):
            label = _SPEAKER.match(text) if first or found[-1].text.endswith("\n") else None
            if label and label["label"].lower() not in ("http", "https"):
                turn, speaker = turn + (not first), label["label"]
            else:
                label = None
            found.append(
                Sentence(text=text, turn=turn, source=source, speaker=speaker, labelled=label is not None)
            )
            first = False
    return found


def _sentences(text: str) -> Iterator[str]:
    """Cut a text after its sentences and the white space that follows them."""
    spans = [span for span in protected_spans(text) if span[1] - span[0] > 1]
    at = start = 0
    for place in sentence_ends(text):
        while at < len(spans) and spans[at][1] < place:
            at += 1
        if place <= start or (at < len(spans) and spans[at][0] < place < spans[at][1]):
            continue
        space = _SPACE.match(text, place)
        end = space.end() if space else place
        if end - start >= _SHORTEST or "\n" in text[start:end]:
            yield from _parts(text[start:end])
            start = end
    if start < len(text):
        yield from _parts(text[start:])


def _parts(sentence: str) -> Iterator[str]:
    """Cut a very long sentence behind commas."""
    if len(sentence) <= _LONGEST or "```" in sentence or sentence.lstrip()[:1] in ("{", "["):
        yield sentence
        return
    start = 0
    for match in _COMMA.finditer(sentence):
        if match.end() - start >= _LONGEST // 2:
            yield sentence[start : match.end()]
            start = match.end()
    if start < len(sentence):
        yield sentence[start:]
