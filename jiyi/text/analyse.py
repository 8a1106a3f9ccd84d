"""Search terms of texts that mix Chinese, English and technical identifiers.

* All text: NFKC, lower case, Latin letters without diacritics.
* Chinese: every pair of neighbouring characters and the dictionary's words; of words of one
  character those that are no function words. Kana, Hangul, Thai, Lao, Burmese, Khmer: pairs.
* English: Snowball stems (Porter 2, snowballstem.org) without stop words; other scripts: words.
* Identifiers (paths, URLs, versions, host names, snake_case, camelCase): whole, sections, parts.
* Emoji: one term each.

Terms contain no white space, quotation marks, backslashes or NUL and are cut to `MAX_TERM` characters.
What looks like encoded binary (base64) is not split. The time is linear in the length of the text: 2 to
3 MB of prose a second on one core.
"""

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache, partial
from itertools import pairwise
from typing import Literal

from jiyi.text.lexicon import HAN, HAN_CHAR, jieba, lexicon

__all__ = ["MAX_TERM", "analyse", "language", "query_terms", "stopwords"]

MAX_TERM = 64
"""The maximum length of a term in characters."""

stopwords = cache(partial(lexicon, __package__, "stopwords"))
"""Returns the lists of `stopwords.toml`: words that carry no search meaning."""

_LANGUAGE_SAMPLE = 20_000  # characters
_MIN_BLOB_CHARS = 200  # of a token that may be encoded binary
_MAX_CACHED_CHARS = 500  # of a text whose terms are cached

_PAIRED = (  # kana, Hangul, Thai, Lao, Burmese, Khmer
    r"\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u1100-\u11ff\uac00-\ud7a3"
    r"\u0e01-\u0e3a\u0e40-\u0eff\u1000-\u109f\u1780-\u17ff"
)
_EMOJI = r"\u2600-\u27bf\u2b50\u2b55\U0001f1e6-\U0001f1ff\U0001f300-\U0001f64f\U0001f680-\U0001faff"
_WORD = r"[\w\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0dff]+"  # letters, digits, _ and their marks
_RUN = re.compile(rf"(?P<han>[{HAN}]+)|(?P<paired>[{_PAIRED}]+)|[^{HAN}{_PAIRED}]+")
_TOKEN = re.compile(  # each alternative starts with a fixed or bounded prefix: no backtracking over the text
    r"(?:https?|ftp|wss?|file|ssh|git|s3|redis|mysql|postgres(?:ql)?|mongodb|amqp)://"
    r"[\w.~:/?#\[\]@!$&*+,;=%()-]+"
    r"|\b(?:[cC]\+\+|[cCfF]#)(?![\w+#])"
    rf"|(?:(?<![\w.~])(?:~|\.\.?)?/)?{_WORD}(?:(?:[.\-/:@\\]{{1,3}}|(?<=\d),(?=\d\d\d(?!\d))){_WORD})*"
    rf"|[{_EMOJI}]"
)
_MANY_MARKS = re.compile(r"[^\w\s\x00-\x7f]{33,}")
_SECTIONS = re.compile(r"[^\w.\-\u0080-\U0010ffff]+|(?<=\d\d\d\d-\d\d-\d\d)[Tt](?=\d\d)")
_PARTS = re.compile(r"[._\-]+")
_SEPARATOR = re.compile(r"[^\w\u0080-\U0010ffff]|_")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_LETTERS_DIGITS = re.compile(r"\A(?:[A-Za-z]{2,}\d+|\d+[G-Zg-z][A-Za-z]+)")  # not the digits of a hash
_TURNS = re.compile(r"[a-z](?=[A-Z0-9])|[A-Z](?=[0-9])|[0-9](?=[A-Za-z])")
_LATIN_WORD = re.compile(r"[A-Za-z\u00c0-\u024f]+")
_UNDECOMPOSED = str.maketrans({"ø": "o", "đ": "d", "ł": "l", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe"})
_ACRONYMS = frozenset({"IT", "US"})  # words in capitals that are stop words otherwise

_own = threading.local()  # a stemmer must not be shared between threads


def analyse(text: str) -> list[str]:
    """Return the terms of ``text`` in order, with repetitions, without stop words unless they are all."""
    return list((_cached_terms if len(text) <= _MAX_CACHED_CHARS else _cached_terms.__wrapped__)(text))


@lru_cache(maxsize=2048)
def _cached_terms(text: str) -> tuple[str, ...]:
    found = tuple(_terms(text, _han_terms, stopwords().english))
    return found or tuple(_terms(text, _han_terms, frozenset()))


def query_terms(text: str) -> list[str]:
    """Return the terms to search with: distinct, in order; all terms where nothing else would remain.

    Question and function words of both languages are left out, and Chinese pairs do not span them.
    """
    read = _cached_query_terms if len(text) <= _MAX_CACHED_CHARS else _cached_query_terms.__wrapped__
    return list(read(text))


@lru_cache(maxsize=2048)
def _cached_query_terms(text: str) -> tuple[str, ...]:
    words = stopwords()
    found = dict.fromkeys(_terms(text, _han_query_terms, words.english, words.english_question))
    return tuple(found or dict.fromkeys(analyse(text)))


def language(text: str) -> Literal["zh", "en"]:
    """Return "zh" if the first 20,000 characters have as many Han characters as Latin words, else "en"."""
    sample = "" if text.isascii() else text[:_LANGUAGE_SAMPLE]
    han = len(HAN_CHAR.findall(sample))
    return "zh" if han and han >= len(_LATIN_WORD.findall(sample)) else "en"


def _terms(
    text: str,
    han: Callable[[str], Iterable[str]],
    stop: frozenset[str],
    unasked: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """Yield the terms of a text: of Chinese those of ``han``, none of the tokens ``unasked``."""
    # Ordering the marks of one letter is quadratic in their number (UAX #15): 33 in a row are too many.
    few_marks = text if text.isascii() else _MANY_MARKS.sub(lambda run: run[0][:32], text)
    plain = unicodedata.normalize("NFKC", few_marks)
    runs = [(None, plain)] if plain.isascii() else ((run.lastgroup, run[0]) for run in _RUN.finditer(plain))
    for kind, run in runs:
        if kind == "han":
            yield from han(run)
        elif kind == "paired":
            yield from _bigrams(run)
        else:
            for token in _TOKEN.findall(run):
                if not unasked or token.lower() not in unasked:
                    read = _expand if len(token) <= MAX_TERM else _identifier_terms
                    yield from read(token, stop)


def _bigrams(run: str) -> list[str]:
    return [a + b for a, b in pairwise(run)] if len(run) > 1 else [run]


def _han_terms(run: str) -> list[str]:
    terms, unsaid = _bigrams(run), stopwords().chinese_question
    words = jieba().cut_for_search(run) if len(run) > 1 else ()
    return terms + [
        word[:MAX_TERM] for word in words if len(word) > 2 or (len(word) == 1 and word not in unsaid)
    ]


def _han_query_terms(run: str) -> Iterator[str]:
    """Yield the terms between question and function words."""
    start = end = 0
    unsaid = stopwords().chinese_question
    for word in [*jieba().cut(run), ""]:
        if word and word not in unsaid:
            end += len(word)
            continue
        if end > start:
            yield from _han_terms(run[start:end])
        start = end = end + len(word)


@lru_cache(maxsize=1 << 16)
def _expand(token: str, stop: frozenset[str]) -> tuple[str, ...]:
    return tuple(_identifier_terms(token, stop))


def _identifier_terms(token: str, stop: frozenset[str]) -> Iterator[str]:
    """Yield a whole token, its sections and its parts; of a plain word only the stem."""
    if len(token) >= _MIN_BLOB_CHARS and len(_TURNS.findall(token)) > len(token) / 5:
        yield _fold(token[:MAX_TERM])
        return
    token = token.rstrip(".,;:!?)]*&=#") if "://" in token else token.replace(",", "").strip("_")
    if token.endswith(("+", "#")) or not _SEPARATOR.search(token):
        yield from _word_terms(token, stop, lone=True)
        return
    yield _fold(token)
    scheme, found, rest = token.partition("://")
    for section in _SECTIONS.split(rest if found else scheme):
        parts = [part for part in _PARTS.split(section) if part]
        if len(parts) > 1 and section != token:
            yield _fold(section.strip("._-"))
        if len(parts) > 1 and re.match(r"[vV]\d", section):
            yield _fold(section[1:])
        for part in parts:
            yield from _word_terms(part, stop, lone=False)


def _word_terms(word: str, stop: frozenset[str], lone: bool) -> Iterator[str]:
    """Yield the stem of a word and, for camelCase and letters with digits, those of its parts."""
    folded = _fold(word)
    if not folded or (folded in stop and word not in _ACRONYMS):
        return
    if not lone and len(folded) == 1 and folded.isalpha():
        return
    yield _stem(folded)
    if word.isascii() and not (word.islower() and word.isalpha()) and 2 < len(word) <= MAX_TERM:
        parts = _CAMEL.findall(word) if word.isalpha() or _LETTERS_DIGITS.fullmatch(word) else ()
        if len(parts) > 1:
            for part in parts:
                yield from _word_terms(part, stop, lone=False)


def _fold(token: str) -> str:
    folded = token.replace("\\", "/").casefold()
    if not folded.isascii():
        letters = unicodedata.normalize("NFD", folded)
        letters = "".join(c for c in letters if not "\u0300" <= c <= "\u036f")
        folded = unicodedata.normalize("NFKC", letters).translate(_UNDECOMPOSED)
    return folded[:MAX_TERM]


def _stem(word: str) -> str:
    if not (word.isascii() and word.isalpha()):
        return word
    if not hasattr(_own, "stem"):
        import Stemmer

        _own.stem = Stemmer.Stemmer("english", 0).stemWord
    return str(_own.stem(word))
