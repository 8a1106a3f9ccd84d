"""Cuts a message into sentences, these into clauses of words, each word with its class or a value's kind."""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import takewhile
from typing import Any, NamedTuple

from jiyi.extraction.values import table, values

__all__ = ["VALUE", "Clause", "Word", "clauses_of", "is_chinese", "past_verbs", "sentences"]

VALUE = "#"  # what the class of a value begins with; its kind follows
_HAN = re.compile(r"[\u4e00-\u9fff]")
_EN = re.compile(
    r"[^\W_]+?n['’]t\b|[^\W_]+(?:(?:-|/|&|\.(?=\w))[^\W_]+|(?<=\b[A-Z])['’][A-Z][^\W_]+)*|['’](?:s|re|m|ve|ll|d|t)\b|[^\w\s]|_+"
)
_PART = re.compile(r"[，,、；;：:—–()（）…|→/]|\.{2,}|~+")
_SPLITS = frozenset(
    ["but", "so", "because", "cos", "cuz", "while", "which", "who", "though", "although", "whereas"]
)
_NOUNS_AFTER = frozenset({"the", "my", "our", "your", "his", "their"})
_OWNED = frozenset({"n", "N", "M", "adj", "kin", "point"})


_LONGEST = 1_000  # characters of a sentence that is read
_FENCED = re.compile(r"```.*?(?:```|\Z)|^[ \t]*>.*$", re.DOTALL | re.MULTILINE)
_END = re.compile(r"[。！？；!?;\n]+|\.+(?=\s|\Z)|\Z")
_ABBREVIATED = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|St|Prof|Fr|e\.g|i\.e|vs|No|approx|etc|a\.k\.a|[A-Z])\.\Z")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)、])\s+")


class Word(NamedTuple):
    """A word of a sentence."""

    start: int
    end: int
    text: str
    cls: str  # its class, or VALUE and the kind of the value


class Clause(NamedTuple):
    """A part of a sentence that says one thing."""

    words: Sequence[Word]
    place: int  # which clause of its sentence
    parts: int  # clauses of the sentence
    chinese: bool


def sentences(text: str) -> Iterator[str]:
    """Give the sentences of a text with their marks, without code blocks and quoted lines."""
    if "```" in text or ">" in text:
        text = _FENCED.sub("\n", text)
    start = 0
    for match in _END.finditer(text):
        if match[0].startswith(".") and _ABBREVIATED.search(text, max(start, match.end() - 12), match.end()):
            continue
        part = _BULLET.sub("", text[start : match.end()]).strip()
        start = match.end()
        if part.strip("。！？；!?;.… ") and len(part) <= _LONGEST:
            yield part


def is_chinese(text: str) -> bool:
    """Return whether Chinese characters are in a text."""
    return not text.isascii() and _HAN.search(text) is not None


def clauses_of(sentence: str) -> list[Clause]:
    """Return the clauses of a sentence."""
    chinese = is_chinese(sentence)
    words = _chinese(sentence) if chinese else _english(sentence)
    parts = [part for part in (_parted_zh(words) if chinese else _parted_en(words)) if part]
    return [Clause(tuple(part), place, len(parts), chinese) for place, part in enumerate(parts)]


def _parted_zh(words: Sequence[Word]) -> Iterator[list[Word]]:
    part: list[Word] = []
    for word in words:
        if word.cls == "x" or (
            part and word.start > part[-1].end and _HAN.match(part[-1].text[-1]) and _HAN.match(word.text[0])
        ):
            yield part
            part = []
        if word.cls != "x":
            part.append(word)
    yield part


def _parted_en(words: Sequence[Word]) -> Iterator[list[Word]]:
    part: list[Word] = []
    for place, word in enumerate(words):
        low = word.text.lower()
        after = words[place + 1] if place + 1 < len(words) else None
        parting = word.cls == "x" or (low in _SPLITS and part)
        if low in ("and", "or", "then", "plus") and after is not None:
            parting = after.cls in ("pro", "own", "verb", "be", "neg", "aux") or (
                any(w.cls[0] == VALUE for w in part)
                and any(w.cls[0] == VALUE for w in words[place + 1 : place + 5])
            )
        if parting:
            yield part
            part = []
        if word.cls != "x" and not (parting and word.cls == "conj"):
            part.append(word)
    yield part


def _english(sentence: str) -> list[Word]:
    found = _valued(sentence)
    words: list[Word] = []
    known = _known()["en"]
    at = 0
    for value in [*found, None]:
        end = value.start if value else len(sentence)
        for match in _EN.finditer(sentence, at, end):
            text = match[0]
            low = text.lower().replace("’", "'")
            if not (text[0].isalnum() or text[0] in "'’"):
                if _PART.match(text) or text in '-"':
                    words.append(Word(match.start(), match.end(), text, "x"))
                continue
            cls = known.get(low) or _verb(low)
            end_of_name = (
                low == "'s"
                and words
                and words[-1].cls == "N"
                and not sentence[match.end() :].lstrip()[:1].isalnum()
            )
            if end_of_name:  # St Aidan's
                words[-1] = words[-1]._replace(end=match.end(), text=f"{words[-1].text}{text}")
                continue
            if cls == "verb" and words and words[-1].text.lower() in _NOUNS_AFTER:
                cls = "n"  # the report
            if text[0].isupper() and (cls is None or (cls == "verb" and words)):
                cls = "N" if words and words[-1].cls != "x" else "M"
            words.append(Word(match.start(), match.end(), text, cls or "n"))
        if value:
            words.append(value)
            at = value.end
    return [_possessive(word, words[place + 1 : place + 8]) for place, word in enumerate(words)]


def _possessive(word: Word, after: Sequence[Word]) -> Word:
    """Return a word, "'s" as one that tells whose something is where it does not mean "is"."""
    if word.text not in ("'s", "’s") or not after or after[0].cls not in _OWNED:
        return word
    rest = [one.cls for one in takewhile(lambda one: one.cls != "x", after)]
    owns = after[0].cls in ("kin", "point") or "be" in rest or "verb" in rest
    return word._replace(cls="own") if owns else word


def _chinese(sentence: str) -> list[Word]:
    words = [*_valued(sentence)]
    spots = bytearray(len(sentence))
    for word in words:
        spots[word.start : word.end] = b"\1" * (word.end - word.start)
    for start, end, cls in _listed(sentence):
        if not any(spots[start:end]):
            words.append(Word(start, end, sentence[start:end], cls))
            spots[start:end] = b"\1" * (end - start)
    known, tags = _known()["zh"], _known()["tags"]
    at = 0
    for text, tag in _tagged(sentence):
        start, at = at, at + len(text)
        while start < at and spots[start]:
            start += 1
        end = start
        while end < at and not spots[end]:
            end += 1
        part = sentence[start:end]
        if _PART.match(part):
            words.append(Word(start, end, part, "x"))
        elif part and part[0].isalnum():
            cls = "N" if part.isascii() else known.get(part) or tags.get(tag) or tags.get(tag[0], "n")
            words.append(Word(start, end, part, cls))
    words.sort()
    return words


def _listed(sentence: str) -> Iterator[tuple[int, int, str]]:
    """Give the names of persons and the listed nouns in a Chinese sentence, the longest at each place."""
    known = _known()
    for name in known["person"].finditer(sentence):
        yield *name.span(), "nr"
    for kin in known["own_kin"].finditer(sentence):
        yield *kin.span(), "kin"
    nouns, longest, end = known["nouns"], known["longest"], 0
    for place, character in enumerate(sentence):
        for size in range(longest.get(character, 0) if place >= end else 0, 1, -1):
            if (cls := nouns.get(sentence[place : place + size])) is not None:
                yield place, place + size, cls
                end = place + size
                break


def _valued(sentence: str) -> Iterator[Word]:
    for match in values(sentence):
        yield Word(*match.span(), match[0], f"{VALUE}{match.lastgroup}")


@lru_cache(maxsize=1 << 12)
def _verb(word: str) -> str | None:
    verbs = _known()["verbs"]
    if word in verbs:
        return "verb"
    for suffix, stem in _known()["suffixes"]:
        if word.endswith(suffix) and word[: -len(suffix)] + stem in verbs:
            return "verb"
    return "adv" if word.endswith("ly") and len(word) > 4 else None


@cache
def past_verbs() -> frozenset[str]:
    """Return the English forms of the past that do not end in -ed."""
    return frozenset(table("words")["past"].split())


@cache
def _known() -> dict[str, Any]:
    read = table("words")
    by_word = {
        language: {
            word: name
            for name, words in reversed(read[f"classes_{language}"].items())
            for word in words.split()
        }
        for language in ("en", "zh")
    }
    for word in f"{read['irregular']} {read['past']}".split():
        by_word["en"].setdefault(word, "verb")
    for cls in ("point", "kin"):
        for word in read[cls].split():
            by_word["en"].setdefault(word.rpartition("_")[2], cls)
    names = read["names_zh"]
    family, after = f"[{names['family']}]", f"(?:{names['after']})"
    before = rf"(?:{names['before']}){family}(?!师|板|人|家)"
    person = rf"{family}[\u4e00-\u9fff]?{after}(?!们)|{before}|阿[\u4e00-\u9fff]"
    nouns = {word: cls for cls in ("point", "kin") for word in read[cls].split() if not word.isascii()}
    return by_word | {
        "verbs": frozenset(read["verbs"].split()),
        "person": re.compile(person),
        "own_kin": re.compile(rf"(?<=[我他她你您俺咱]){names['kin']}(?![\u4e00-\u9fff]?[机家个])"),
        "nouns": nouns,
        "longest": {word[0]: len(word) for word in sorted(nouns, key=len)},
        "tags": {tag: cls for cls, tags in read["tags_zh"].items() for tag in tags.split()},
        "suffixes": read["suffixes"],
    }


def _tagged(sentence: str) -> list[tuple[str, str]]:
    import rjieba  # a dictionary of 5 MB, read when it is needed

    whole = re.sub(r"[\ud800-\udfff]", "\ufffd", sentence)  # it takes no lone surrogates
    return list(rjieba.tag(whole))
