"""Keys of entity and predicate names: "nginx 容器", "the nginx container" and "Nginx-Container" have one.

* NFKC, case folded; a determiner at the beginning (the, our, 这个, 我的), 's and 的 are left out.
* White space, brackets, quotation marks and hyphens separate words, except hyphens between digits. A
  word with other signs keeps them: "v1.2", "/etc/nginx-1", "web.prod:8080".
* Common nouns of both languages become one word (`keys.toml`), with English plurals. Of Chinese the
  longest known word is taken at each place. Nothing else is stemmed: "Redis" is no plural.

The key of a key is the key. A key has at most `MAX_KEY` characters; longer ones are replaced by a hash of 32
hex digits. It takes about 5 microseconds for a new name.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from jiyi.text.lexicon import HAN, HAN_CHAR, read_toml

__all__ = ["MAX_KEY", "entity_key", "predicate_key"]

MAX_KEY = 128
"""The maximum length of a key in characters."""

_MAX_NAME = 1_000  # characters; longer texts are only hashed
_MAX_ROUNDS = 8  # a round may reveal words to the next; two or three are enough for real names

_DASHES = str.maketrans("‐‑‒–−’‘", "-----''", "\u200b\u200c\u200d\ufeff\u00ad")
_UNREADABLE = re.compile("[\0-\x08\x0e-\x1b\x7f\ud800-\udfff]")
_PARTING = r"""\s"`,;!?()\[\]{}<>|^*\u00a1-\u00bf\u2000-\u206f\u2e00-\u2e7f\u3000-\u3004\u3008-\u3020\u30fb"""
_STRETCH = re.compile(rf"[{HAN}]+|[^{_PARTING}{HAN}]+")
_BETWEEN_HAN = re.compile(rf"(?<=[{HAN}]) +(?=[{HAN}])")
_HEAD = re.compile(r"[':=&%]+")
_TAIL = re.compile(r"(?:'s|[.:'=&@/\\-])+\Z")
_SIGNS = "./:@+#=~%&$\\_'-"
_CODE = re.compile(r"[./:@+#=~%&$\\_]|\d-\d|^-")
_POSSESSIVE = re.compile(r"(?:'s?)+\Z")
_OF_ZH = re.compile(r"(?<!目)的(?![士确])")
_DETERMINER_ZH = re.compile(r"(?:[这那][个台只张条辆部家位款套]|该|(?:我们|咱们|我|咱)的|的(?![士确]))+")
_A = re.compile(r"a (?=[a-z]{2,}(?:[ '-]|\Z))")
_DETERMINERS = frozenset(["the", "an", "this", "that", "these", "those", "our", "my", "its"])
_IRREGULAR = {"child": "children", "person": "people", "mouse": "mice"}


class _KeyWords(NamedTuple):
    single: Mapping[str, str]  # word -> its key
    phrases: Mapping[tuple[str, ...], str]  # two or three keys in a row -> their common key
    ends: frozenset[str]  # the last words of phrases
    longest: Mapping[str, int]  # first character of a Chinese word -> characters of the longest


def entity_key(name: str) -> str:
    """Return the key of the name of a thing or person, "" for white space only."""
    return _compute_key(name, False) if len(name) <= _MAX_NAME else _hashed_key(name)


def predicate_key(name: str) -> str:
    """Return the key of a predicate ("port", "监听端口", "birthday"), "" for white space only."""
    return _compute_key(name, True) if len(name) <= _MAX_NAME else _hashed_key(name)


def _hashed_key(name: str) -> str:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@lru_cache(maxsize=1 << 14)
def _compute_key(name: str, points: bool) -> str:
    text, words = name, _load_words(points)
    for _ in range(_MAX_ROUNDS):
        key = _normalize_once(text, words)
        if key == text or key.isascii():  # only Chinese may change again
            return key if len(key) <= MAX_KEY else _hashed_key(key)
        text = key
    return _hashed_key(text)


def _normalize_once(name: str, words: _KeyWords) -> str:
    text = _normalize_text(name)
    found: list[str] = []
    for stretch in _STRETCH.findall(_A.sub("", text, count=1) if text.startswith("a ") else text):
        read = _han_words if stretch[0] > "\u3004" and HAN_CHAR.match(stretch) else _latin_words
        found.extend(read(stretch, words))
    while len(found) > 1 and found[0] in _DETERMINERS:
        del found[0]
    found = _join_words(found, words)
    if len(found) > 1 and found[0] == "a":  # "A 服务" is another one than "服务"
        found[:2] = [f"a-{found[1]}"]
    return " ".join(found) or text


def _normalize_text(name: str) -> str:
    """Return a text with normalised characters and single spaces, without spaces between Chinese."""
    text = name.lower()
    if not name.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
        text = text.translate(_DASHES)
    if not text.isprintable():
        text = _UNREADABLE.sub("", text)
    return _BETWEEN_HAN.sub("", " ".join(text.split()))


def _latin_words(stretch: str, words: _KeyWords) -> Iterator[str]:
    """Yield the words of a stretch without Chinese; one with signs is one word."""
    if stretch.isalnum():
        yield words.single.get(stretch, stretch)
        return
    if head := _HEAD.match(stretch):
        stretch = stretch[head.end() :]
    stretch = _TAIL.sub("", stretch)
    if _CODE.search(stretch):
        if stretch.strip(_SIGNS):
            yield words.single.get(stretch, stretch)
        return
    for part in stretch.split("-"):
        if part := _POSSESSIVE.sub("", part).lstrip("'"):
            yield words.single.get(part, part)


def _han_words(stretch: str, words: _KeyWords) -> Iterator[str]:
    """Yield the words of a stretch of Chinese: known ones as their keys, the rest unchanged."""
    if stretch in words.single:
        yield words.single[stretch]
        return
    if found := _DETERMINER_ZH.match(stretch):
        stretch = stretch[found.end() :]
    if "的" in stretch:
        stretch = _OF_ZH.sub("", stretch)
    parts, at = [""], 0  # unknown and known ones in turn
    while at < len(stretch):
        sizes = range(min(words.longest.get(stretch[at], 0), len(stretch) - at), 1, -1)
        size = next((size for size in sizes if stretch[at : at + size] in words.single), 0)
        if size:
            parts += stretch[at : at + size], ""
        else:
            parts[-1] += stretch[at]
        at += size or 1
    yield from (words.single.get(part, part) for part in parts if part)


def _join_words(found: list[str], words: _KeyWords) -> list[str]:
    """Join words that form a known phrase ("load balancer")."""
    out: list[str] = []
    for word in found:
        out.append(word)
        while len(out) > 1 and out[-1] in words.ends:
            size = next((size for size in (3, 2) if tuple(out[-size:]) in words.phrases), 1)
            if size == 1:
                break
            out[-size:] = [words.phrases[tuple(out[-size:])]]
    return out


@cache
def _load_words(points: bool) -> _KeyWords:
    """Read groups of synonyms; a word in several groups belongs to the last one."""
    tables = read_toml(__package__, "keys")
    lines = (tables["nouns"] + (tables["points"] if points else "")).split("\n")
    groups = [line.split() for line in lines if line]
    single: dict[str, str] = {}
    for group in groups:
        for word in (word for word in group if "_" not in word):
            single[word] = group[0]
            if word.isascii() and len(word) > 1:
                single.setdefault(_singular_to_plural(word), group[0])
    for word in list(single):
        while single[word] != single[single[word]]:  # its key may belong to a later group
            single[word] = single[single[word]]
    phrases: dict[tuple[str, ...], str] = {}
    for group in groups:
        for phrase in (phrase for phrase in group if "_" in phrase):
            *first, last = (single.get(part, part) for part in phrase.split("_"))
            phrases[*first, last] = phrases[*first, _singular_to_plural(last)] = single[group[0]]
    # Of words with the same first character, the longest comes last and stays.
    longest = {word[0]: len(word) for word in sorted(single, key=len) if not word.isascii()}
    ends = frozenset(phrase[-1] for phrase in phrases)
    return _KeyWords(single=single, phrases=phrases, ends=ends, longest=longest)


def _singular_to_plural(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return _IRREGULAR.get(word) or (f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s")
