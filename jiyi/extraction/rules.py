"""Standing instructions to the assistant: which sentences give or take back one, and what it is about.

They are read by signs (rules.toml): who is asked, for how long. What two of them are about is put into
one form for both languages, so that they can be compared.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from jiyi.extraction.clauses import is_chinese
from jiyi.extraction.values import patterns, table
from jiyi.text import analyse

__all__ = ["RULE_POINTS", "Rule", "RuleMeaning", "meaning_of", "rule_point", "rules_in"]

RULE_POINTS: Mapping[str, tuple[str, str]] = {
    "language": ("answer language", "回答语言"),
    "length": ("answer length", "回答长度"),
    "units": ("units", "单位"),
    "address": ("form of address", "称呼"),
}
"""What instructions settle that have one value at a time: by a key the names in English and Chinese."""

_PART = re.compile(
    r"[,，;；。!！\n]+|(?<!\d)(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bMrs)(?<!\bProf)\.(?=\s|\Z)|(?<=[\u4e00-\u9fff])\s+(?=[\u4e00-\u9fff])|\s[—–-]+\s|\s\("
)
_JOINED = re.compile(
    r"\s(?:and|but)\s(?=(?:please |then )?(?:always|never|don['’]t|do not|no|use|keep|answer|reply)\b)", re.I
)
_QUOTED = re.compile('["“「『][^"”」』]{4,300}["”」』]')
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
_TALKS = frozenset({"talk", "discuss", "speak", "chat"})
_ONLY = re.compile(r"\bonly\b", re.I)
_LONGEST = 240  # characters of an instruction
_MARKS = " \t,，:：。.!！?？;；、—–-"
_OTHER = ("rule", "规则")
_HAN = re.compile(r"[\u4e00-\u9fff]+")


class Rule(NamedTuple):
    """A standing instruction, or what takes one back."""

    start: int  # where it stands in its sentence
    end: int
    text: str  # its words
    points: tuple[str, ...]  # the names of what it settles; one of none, where that is no point of its own
    action: Literal["state", "end"] = "state"
    lifts: bool = False  # nothing new is asked: it only takes back


class RuleMeaning(NamedTuple):
    """What an instruction is about."""

    points: Mapping[str, str]  # of `RULE_POINTS` those it is about, with their values
    denies: bool  # it forbids
    releases: bool  # it says that something is not needed any more
    names: frozenset[str]  # the things it names, by one name in both languages
    terms: frozenset[str]  # these and its other words, without those that only tell how it is asked


class _Signs(NamedTuple):
    hints: tuple[str, ...]
    patterns: Mapping[str, re.Pattern[str]]
    verbs: frozenset[str]  # that lasting instructions begin with; English only
    asks: frozenset[str]  # that it is forbidden to do; English only

    def has(self, name: str, text: str) -> bool:
        return self.patterns[name].search(text) is not None


def rules_in(sentence: str, message: str) -> Iterator[Rule]:
    """Give the standing instructions to the assistant in a sentence of a user's message; pure.

    One is given where the assistant is asked, and for good or about the form of all answers. What is
    asked for once or of one thing, what is told of others, quoted or asked gives none.
    """
    lower = sentence.lower()
    chinese = is_chinese(sentence)
    signs = _signs("zh" if chinese else "en")
    if any(hint in lower for hint in signs.hints):
        yield from _Sentence(sentence, message, signs, chinese).rules()


class _Sentence:
    def __init__(self, sentence: str, message: str, signs: _Signs, chinese: bool) -> None:
        self._text, self._message = sentence, message
        self._signs, self._chinese = signs, chinese
        self._asks = signs.has("asking", sentence)

    def rules(self) -> Iterator[Rule]:
        quoted = [match.span() for match in _QUOTED.finditer(self._text)]
        begun, lasting = -1, False  # where words stand that belong to what follows
        told = False  # a clause before tells of somebody: "we use tabs, never spaces"
        for start, end in _parts(self._text):
            part = self._text[start:end]
            if any(at <= start < over for at, over in quoted):
                continue
            if self._signs.patterns["head"].match(part):
                begun = start if begun < 0 else begun
                lasting = lasting or self._signs.has("for_good", part)
                continue
            first = start if begun < 0 else begun
            rule = self._rule(first, end, part, (lasting, told))
            if rule is not None:
                if self._signs.has("reports", self._text):
                    return
                yield rule
            elif self._signs.has("subject", part):
                lasting, told = False, True
            begun = -1

    def _rule(self, start: int, end: int, part: str, before: tuple[bool, bool]) -> Rule | None:
        lasting, told = before
        if len(part) > _LONGEST:
            return None
        signs = self._signs
        whole = self._text[start:end].strip(_MARKS)
        start = self._text.index(whole, start)
        end = start + len(whole)
        if not self._asks and self._lifts(part) and not signs.has("once", part.strip()):
            return Rule(start, end, whole, (rule_point("", self._chinese),), "end", lifts=True)
        lasting = lasting or signs.has("for_good", part)
        if self._asks and not (lasting and signs.has("modal", part)):
            return None
        if not (self._asked_zh(part, lasting) if self._chinese else self._asked_en(part, lasting, told)):
            return None
        if signs.has("once", part.strip()) or (not lasting and self._is_task()):
            return None
        meaning = meaning_of(whole)
        settled = () if meaning.denies else tuple(meaning.points)
        points = tuple(rule_point(point, self._chinese) for point in settled or ("",))
        gone = meaning.denies and meaning.points and signs.has("no_more", part)
        return Rule(start, end, whole, points, "end" if gone else "state")

    def _lifts(self, part: str) -> bool:
        """Return whether something is allowed again, or no longer asked for, that a rule can be about."""
        signs = self._signs
        match = signs.patterns["allow"].match(part) or signs.patterns["release"].match(part)
        if match is None:
            return False
        about = " ".join(filter(None, match.groupdict().values())).strip()
        if meaning_of(about).names:
            return True
        if self._chinese:
            return signs.has("acts", about) or signs.has("form", about)
        return bool(_stem(about, signs.asks)) and not signs.has("bound", about)

    def _is_task(self) -> bool:
        """Return whether the message also asks for one thing: then the sentence tells how to do that."""
        rest = self._message.replace(self._text, " ", 1)
        return self._signs.has("asking", rest) or self._signs.has("task", rest)

    def _asked_en(self, part: str, lasting: bool, told: bool) -> bool:
        signs, part = self._signs, part.strip(_MARKS)
        said, rest = self._led(part)
        neg = None if signs.has("denies", said) else signs.patterns["neg"].match(rest)  # "never skip"
        if neg:
            _, rest = self._led(rest[neg.end() :].strip())
        if neg is None and (signs.has("topic", rest) or (lasting and signs.has("topic_for_good", rest))):
            return True
        verb = _stem(rest, signs.asks | signs.verbs, ending=neg is not None)
        polite = neg is not None or lasting or signs.has("polite", part)
        if not (rest and (verb or polite)):
            return False
        form = signs.has("form", rest)
        if form and polite and not told and signs.patterns["noun"].match(rest):
            return True
        if not verb or lasting:
            return bool(verb)
        if verb in _TALKS and _ONLY.search(said):
            return True
        if signs.has("bound", rest) and not (form and signs.patterns["keeps"].match(rest)):
            return False
        return form if neg is None else (form or verb in signs.asks) and " " in rest

    def _asked_zh(self, part: str, lasting: bool) -> bool:
        signs, part = self._signs, part.strip(_MARKS)
        said, rest = self._led(part)
        neg = signs.patterns["neg"].match(part) or signs.has("denies", said)
        begins = said or neg or signs.patterns["form"].match(part)
        if not begins or signs.patterns["subject"].match(part):
            return False
        if not (lasting and said) and signs.has("bound", part):
            return False
        if (neg and signs.has("acts", part)) or (signs.has("form", part) and not signs.has("bound", part)):
            return True
        return lasting and bool(said) and signs.patterns["asks"].match(rest) is not None

    def _led(self, text: str) -> tuple[str, str]:
        """Return what leads up to what is asked ("please always"), and the rest."""
        lead = self._signs.patterns["lead"].match(text)
        end = lead.end() if lead else 0
        return text[:end], text[end:]


def _parts(sentence: str) -> Iterator[tuple[int, int]]:
    at = 0
    cuts = sorted([*_PART.finditer(sentence), *_JOINED.finditer(sentence)], key=lambda match: match.start())
    for start, end in [*(cut.span() for cut in cuts), (len(sentence), len(sentence))]:
        if sentence[at:start].strip(_MARKS):
            yield at, start
        at = max(at, end)


def _stem(text: str, verbs: frozenset[str], *, ending: bool = True) -> str:
    """Return the base of the verb that a text begins with, with ``ending`` that of its -ing too, or ""."""
    match = _WORD.match(text)
    if match is None:
        return ""
    word = match[0].lower()
    stem = word.removesuffix("ing")
    for base in (word, stem, f"{stem}e", stem[:-1]):
        if base in verbs and (base == word or (ending and word.endswith("ing"))):
            return base
    return ""


def rule_point(point: str, chinese: bool) -> str:
    """Return the predicate of an instruction; ``point`` is a key of `RULE_POINTS`, or "" for any other."""
    return (RULE_POINTS[point] if point else _OTHER)[chinese]


@lru_cache(maxsize=1 << 10)
def meaning_of(text: str) -> RuleMeaning:
    """Return what an instruction is about; pure."""
    aside = patterns("rules", "aside")
    values = {point: _value(point, text) for point in RULE_POINTS}
    named: set[str] = set()
    rest = text
    for name, pattern in {**patterns("rules", "values.language"), **patterns("rules", "things")}.items():
        rest, count = pattern.subn(" ", rest)
        if count:
            named.add(name)
    for name, pattern in {**patterns("rules", "values.length"), **patterns("rules", "values.units")}.items():
        if pattern.search(text):
            named.add(name)
            rest = pattern.sub(" ", rest)
    signs = patterns("rules", "meaning")
    rest = signs["passing"].sub(" ", rest)
    # A single character that is left of Chinese tells nothing.
    rest = _HAN.sub(lambda match: match[0] if len(match[0]) > 1 else " ", rest)
    return RuleMeaning(
        points={point: value for point, value in values.items() if value and not aside[point].search(text)},
        denies=signs["denies"].search(text) is not None,
        releases=signs["releases"].search(text) is not None,
        names=frozenset(named),
        terms=frozenset(named) | frozenset(analyse(rest)),
    )


def _value(point: str, text: str) -> str:
    """Return the value that a text names first for a point, "" for none."""
    named = patterns("rules", f"values.{point}")
    found = [(match, name) for name, pattern in named.items() if (match := pattern.search(text))]
    if not found:
        return ""
    match, name = min(found, key=lambda one: one[0].start())
    said = [value for value in match.groupdict().values() if value]
    return said[0].strip().casefold() if said else name


@cache
def _signs(language: Literal["en", "zh"]) -> _Signs:
    read = table("rules")[language]
    verbs, asks = (frozenset(read.get("words", {}).get(name, "").split()) for name in ("verbs", "asks"))
    known = frozenset(table("words")["verbs"].split()) if language == "en" else frozenset[str]()
    signs = {**patterns("rules", language), "denies": patterns("rules", "meaning")["denies"]}
    return _Signs(tuple(read["hints"]), signs, verbs | known, asks)
