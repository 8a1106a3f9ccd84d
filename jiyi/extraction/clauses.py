"""Splits a message into sentences, clauses and tagged words."""

import re
from collections.abc import Container, Iterator, Sequence
from functools import cache, lru_cache
from itertools import takewhile
from typing import Any, NamedTuple

from jiyi.extraction.values import find_values, load_patterns, load_table
from jiyi.text.lexicon import jieba

VALUE = "#"  # first character of a value's tag; the kind of value follows
_MIN_QUOTE_WORDS_EN, _MIN_QUOTE_CHARS_ZH = 4, 8  # of a clause that is quoted without its sentence
_MAX_QUOTED_SENTENCE = 200  # characters of a sentence that is quoted whole
_HAN = re.compile(r"[\u4e00-\u9fff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_WORD_EN = re.compile(
    r"[^\W_]+?n['’]t\b|[^\W_]+(?:(?:-|/|&|\.(?=\w))[^\W_]+|(?<=\b[A-Z])['’][A-Z][^\W_]+)*|['’](?:s|re|m|ve|ll|d|t)\b|[^\w\s]|_+"
)
_CLAUSE_BREAK = re.compile(r"[，,、；;：:—–()（）…|→/]|\.{2,}|~+")
_CLAUSE_OPENERS = {"but", "so", "because", "cos", "cuz", "while", "which", "who", "though", "although"}
_PEOPLE, _VERBAL = ("N", "M", "kin"), ("verb", "be", "aux")
_DETERMINERS = frozenset({"the", "my", "our", "your", "his", "their"})
_OWNABLE_TAGS = frozenset({"n", "N", "M", "adj", "kin", "point"})
_MAX_SENTENCE_CHARS = 1_000  # characters of a sentence that is read
_CODE_OR_QUOTE = re.compile(r"```.*?(?:```|\Z)|^[ \t]*>.*$", re.DOTALL | re.MULTILINE)
_SENTENCE_END = re.compile(r"(?:[。！？；\n]|[!?;](?![!?;]*[\w@#$%^&*+-]*\d))+|\.+(?=\s|\Z)|\Z")
_ABBREVIATION = re.compile(r"\b(?:[DdMm]rs?|Ms|St|[Pp]rof|Fr|e\.g|i\.e|vs|No|approx|etc|a\.k\.a|[A-Z])\.\Z")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)、])\s+")


class Word(NamedTuple):
    """A word of a sentence."""

    start: int
    end: int
    text: str
    tag: str  # its word class, or VALUE and the kind of value


class Clause(NamedTuple):
    """A part of a sentence that states one thing."""

    words: Sequence[Word]
    place: int  # its index in the sentence
    clause_count: int  # of the sentence
    chinese: bool


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text with their punctuation, without code blocks and quoted lines."""
    if "```" in text or ">" in text:
        text = _CODE_OR_QUOTE.sub("\n", text)
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if match[0].startswith(".") and _ABBREVIATION.search(text, max(start, match.end() - 12), match.end()):
            continue
        part = _BULLET.sub("", text[start : match.end()]).strip()
        start = match.end()
        if part.strip("。！？；!?;.… ") and len(part) <= _MAX_SENTENCE_CHARS:
            yield part


def is_chinese(text: str) -> bool:
    """Return whether Chinese characters are in a text."""
    return not text.isascii() and _HAN.search(text) is not None


def split_clauses(sentence: str) -> list[Clause]:
    """Return the clauses of a sentence."""
    chinese = is_chinese(sentence)
    words = _tokenize_zh(sentence) if chinese else _tokenize_en(sentence)
    said = {found.end() for found in load_patterns("forms", "value")["passed_on"].finditer(sentence)}
    parts = [part for part in (_group_words_zh(words) if chinese else _group_words_en(words, said)) if part]
    return [Clause(tuple(part), place, len(parts), chinese) for place, part in enumerate(parts)]


def _group_words_zh(words: Sequence[Word]) -> Iterator[list[Word]]:
    part: list[Word] = []
    for word in words:
        if word.tag == "x" or (
            part and word.start > part[-1].end and _HAN.match(part[-1].text[-1]) and _HAN.match(word.text[0])
        ):
            yield part
            part = []
        if word.tag != "x":
            part.append(word)
    yield part


def _group_words_en(words: Sequence[Word], starts: Container[int]) -> Iterator[list[Word]]:
    part: list[Word] = []
    for place, word in enumerate(words):
        low = word.text.lower()
        next_word = words[place + 1] if place + 1 < len(words) else None
        starts_new = word.tag == "x" or word.start in starts or (low in _CLAUSE_OPENERS and part)
        if low in ("and", "or", "then", "plus") and next_word is not None:
            one_subject = bool(part) and part[-1].tag in _PEOPLE and not any(w.tag in _VERBAL for w in part)
            joined = one_subject and next_word.text.lower() in ("i", "we")  # Tom and I live here
            starts_new = (next_word.tag in ("pro", "own", "neg", *_VERBAL) and not joined) or (
                any(w.tag[0] == VALUE for w in part)
                and any(w.tag[0] == VALUE for w in words[place + 1 : place + 5])
            )
        if starts_new:
            yield part
            part = []
        if word.tag != "x" and not (starts_new and word.tag == "conj"):
            part.append(word)
    yield part


def _tokenize_en(sentence: str) -> list[Word]:
    value_words = _find_value_words(sentence)
    words: list[Word] = []
    tags = _lexicon()["en"]
    start = 0
    for value in [*value_words, None]:
        end = value.start if value else len(sentence)
        for match in _WORD_EN.finditer(sentence, start, end):
            text = match[0]
            low = text.lower().replace("’", "'")
            if not (text[0].isalnum() or text[0] in "'’"):
                if _CLAUSE_BREAK.match(text) or text in '-"':
                    words.append(Word(match.start(), match.end(), text, "x"))
                continue
            tag = tags.get(low) or _tag_by_form(low)
            next_char = sentence[match.end() :].lstrip()[:1]
            if low == "'s" and words and words[-1].tag == "N" and not next_char.isalnum():  # St Aidan's
                words[-1] = words[-1]._replace(end=match.end(), text=f"{words[-1].text}{text}")
                continue
            if tag == "verb" and words and words[-1].text.lower() in _DETERMINERS:
                tag = "n"  # the report
            if text[0].isupper() and (tag is None or (tag in ("verb", "adv") and words)):
                tag = "N" if words and words[-1].tag != "x" else "M"
            words.append(Word(match.start(), match.end(), text, tag or "n"))
        if value:
            words.append(value)
            start = value.end
    return [_tag_possessive(word, words[place + 1 : place + 8]) for place, word in enumerate(words)]


def _tag_possessive(word: Word, after: Sequence[Word]) -> Word:
    """Return a word, with the tag "own" if it is a possessive "'s" and not short for "is"."""
    if word.text not in ("'s", "’s") or not after or after[0].tag not in _OWNABLE_TAGS:
        return word
    tags = [later.tag for later in takewhile(lambda later: later.tag != "x", after)]
    is_possessive = after[0].tag in ("kin", "point") or "be" in tags or "verb" in tags
    return word._replace(tag="own") if is_possessive else word


def _tokenize_zh(sentence: str) -> list[Word]:
    words = [*_find_value_words(sentence)]
    covered = bytearray(len(sentence))
    for word in words:
        covered[word.start : word.end] = b"\1" * (word.end - word.start)
    for start, end, tag in _find_listed_words(sentence):
        if not any(covered[start:end]):
            words.append(Word(start, end, sentence[start:end], tag))
            covered[start:end] = b"\1" * (end - start)
    known, pos_tags = _lexicon()["zh"], _lexicon()["tags"]
    at = 0
    for text, pos_tag in jieba().tag(_SURROGATE.sub("\ufffd", sentence)):  # it takes no lone surrogates
        before, at = at, at + len(text)
        start = max(covered.find(0, before, at), before)
        taken = covered.find(1, start, at)
        end = at if taken < 0 else taken
        part = sentence[start:end]
        if _CLAUSE_BREAK.match(part):
            words.append(Word(start, end, part, "x"))
        elif part and part[0].isalnum():
            tag = known.get(part) or pos_tags.get(pos_tag) or pos_tags.get(pos_tag[0], "n")
            words.append(Word(start, end, part, "N" if part.isascii() else tag))
    words.sort()
    return words


def _find_listed_words(sentence: str) -> Iterator[tuple[int, int, str]]:
    """Yield the personal names and listed nouns of a Chinese sentence, the longest at each place."""
    lexicon = _lexicon()
    for name in lexicon["person"].finditer(sentence):
        yield *name.span(), "nr"
    for kin in lexicon["own_kin"].finditer(sentence):
        yield *kin.span(), "kin"
    nouns, longest, end = lexicon["nouns"], lexicon["longest"], 0
    for place, character in enumerate(sentence):
        for size in range(longest.get(character, 0) if place >= end else 0, 1, -1):
            if (tag := nouns.get(sentence[place : place + size])) is not None:
                yield place, place + size, tag
                end = place + size
                break


def _find_value_words(sentence: str) -> Iterator[Word]:
    for match in find_values(sentence):
        yield Word(*match.span(), match[0], f"{VALUE}{match.lastgroup}")


@lru_cache(maxsize=1 << 12)
def _tag_by_form(word: str) -> str | None:
    verbs, suffixes = _lexicon()["verbs"], _lexicon()["suffixes"]
    stems = (word[: -len(suffix)] + stem for suffix, stem in suffixes if word.endswith(suffix))
    if any(stem in verbs for stem in (word, *stems)):
        return "verb"
    return "adv" if word.endswith("ly") and len(word) > 4 else None


@cache
def _lexicon() -> dict[str, Any]:
    data = load_table("words")
    by_word: dict[str, Any] = {}
    for language in ("en", "zh"):
        classes = reversed(data[f"classes_{language}"].items())
        by_word[language] = {word: tag for tag, words in classes for word in words.split()}
    for word in f"{data['irregular']} {data['past']}".split():
        by_word["en"].setdefault(word, "verb")
    for tag in ("point", "kin"):
        for word in data[tag].split():
            by_word["en"].setdefault(word.rpartition("_")[2], tag)
    names = data["names_zh"]
    family, after = f"[{names['family']}]", f"(?:{names['after']})"
    before = rf"(?:{names['before']}){family}(?!师|板|人|家)"
    person = rf"{family}[\u4e00-\u9fff]?{after}(?!们)|{before}|阿[\u4e00-\u9fff]"
    nouns = {word: tag for tag in ("point", "kin") for word in data[tag].split() if not word.isascii()}
    return by_word | {
        "verbs": frozenset(data["verbs"].split()),
        "person": re.compile(person),
        "own_kin": re.compile(rf"(?<=[我他她你您俺咱]){names['kin']}(?![\u4e00-\u9fff]?[机家个])"),
        "nouns": nouns,
        "longest": {word[0]: len(word) for word in sorted(nouns, key=len)},
        "tags": {pos_tag: tag for tag, pos_tags in data["tags_zh"].items() for pos_tag in pos_tags.split()},
        "suffixes": data["suffixes"],
    }


def quote_around(match: re.Match[str], clauses: Sequence[Clause], sentence: str) -> str:
    """Return the words of a sentence from the first clause that a match is in to its end."""
    start, end = match.span()
    inside = [clause for clause in clauses if clause.words[0].start < end and start < clause.words[-1].end]
    return sentence[inside[0].words[0].start : max(end, inside[-1].words[-1].end)] if inside else sentence


def quote_clause(clause: Clause, sentence: str, subject: str, *, alone: bool) -> str:
    """Return the words of a clause, or its sentence if the clause says too little ``alone``."""
    words = sentence[clause.words[0].start : clause.words[-1].end]
    enough = len(words) >= _MIN_QUOTE_CHARS_ZH if clause.chinese else len(clause.words) >= _MIN_QUOTE_WORDS_EN
    return words if alone or enough or subject in words or len(sentence) > _MAX_QUOTED_SENTENCE else sentence
