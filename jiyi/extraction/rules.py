"""Standing instructions to the assistant, and what takes them back, by signs: who is asked, for how long."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from jiyi.extraction.clauses import is_chinese
from jiyi.extraction.rule_meaning import meaning_of, rule_point, rule_tables
from jiyi.extraction.values import table

__all__ = ["Rule", "rules_in"]

_PART = re.compile(
    r"[,，;；。!！\n]+|(?<!\d)(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bMrs)(?<!\bProf)\.(?=\s|\Z)|(?<=[\u4e00-\u9fff])\s+(?=[\u4e00-\u9fff])|\s[—–-]+\s|\s\("
)
_JOINED = re.compile(
    r"\s(?:and|but)\s(?=(?:please |then )?(?:always|never|don['’]t|do not|no|use|keep|answer|reply)\b)", re.I
)
_QUOTED = re.compile('["“「『][^"”」』]{4,}["”」』]')
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
_TALKS = frozenset({"talk", "discuss", "speak", "chat"})
_ONLY = re.compile(r"\bonly\b", re.I)
_LONGEST = 240  # characters of an instruction
_MARKS = " \t,，:：。.!！?？;；、—–-"


@dataclass(frozen=True, slots=True)
class Rule:
    """A standing instruction, or what takes one back."""

    start: int  # where it stands in its sentence
    end: int
    text: str  # its words
    points: tuple[str, ...]  # the names of what it settles; one of none, where that is no point of its own
    action: Literal["state", "end"] = "state"
    lifts: bool = False  # nothing new is asked: it only takes back


class _Signs(NamedTuple):
    """The signs of one language."""

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
    for hint in signs.hints:
        if hint in lower:
            yield from _Sentence(sentence, message, signs, chinese).rules()
            return


class _Sentence:
    """A sentence that may hold instructions."""

    def __init__(self, sentence: str, message: str, signs: _Signs, chinese: bool) -> None:
        self._text = sentence
        self._message = message
        self._signs = signs
        self._chinese = chinese
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
        whole = self._text[start:end].strip(_MARKS)
        start = self._text.index(whole, start)
        if not self._asks and self._lifts(part) and not self._signs.has("once", part.strip()):
            return Rule(start, start + len(whole), whole, (rule_point("", self._chinese),), "end", lifts=True)
        lasting = lasting or self._signs.has("for_good", part)
        if self._asks and not (lasting and self._signs.has("modal", part)):
            return None
        if not (self._asked_zh(part, lasting) if self._chinese else self._asked_en(part, lasting, told)):
            return None
        if self._signs.has("once", part.strip()) or (not lasting and self._is_task()):
            return None
        meaning = meaning_of(whole)
        settled = () if meaning.denies else tuple(meaning.points)
        points = tuple(rule_point(point, self._chinese) for point in settled or ("",))
        gone = meaning.denies and meaning.points and self._signs.has("no_more", part)
        return Rule(start, start + len(whole), whole, points, "end" if gone else "state")

    def _lifts(self, part: str) -> bool:
        """Return whether something is allowed again, or no longer asked for, that a rule can be about."""
        match = self._signs.patterns["allow"].match(part) or self._signs.patterns["release"].match(part)
        if match is None:
            return False
        about = " ".join(filter(None, match.groupdict().values())).strip()
        if self._chinese:
            return (
                self._signs.has("acts", about)
                or self._signs.has("form", about)
                or bool(meaning_of(about).names)
            )
        named = bool(meaning_of(about).names)
        return named or (bool(_stem(about, self._signs.asks)) and not self._signs.has("bound", about))

    def _is_task(self) -> bool:
        """Return whether the message asks for one thing beside: then it tells how that is to be done."""
        rest = self._message.replace(self._text, " ", 1)
        return self._signs.has("asking", rest) or self._signs.has("task", rest)

    def _asked_en(self, part: str, lasting: bool, told: bool) -> bool:
        signs, part = self._signs, part.strip(_MARKS)
        said, rest = self._led(part)
        neg = signs.patterns["neg"].match(rest)
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
    """Give where the parts of a sentence begin and end."""
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


@cache
def _signs(language: Literal["en", "zh"]) -> _Signs:
    read = rule_tables()[language]
    words = {name: frozenset(str(read.get(name, "")).split()) for name in ("verbs", "asks")}
    plain = {"hints", "verbs", *(("asks",) if language == "en" else ())}
    patterns = {name: re.compile(text) for name, text in read.items() if name not in plain}
    patterns["denies"] = re.compile(rule_tables()["meaning"]["denies"])
    known = frozenset(table("words")["verbs"].split()) if language == "en" else frozenset[str]()
    return _Signs(tuple(read["hints"]), patterns, words["verbs"] | known, words["asks"])
