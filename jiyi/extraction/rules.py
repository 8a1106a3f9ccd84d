"""Finds standing instructions to the assistant; their meaning has one form for both languages."""

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from jiyi.extraction.clauses import is_chinese
from jiyi.extraction.values import load_patterns, load_table
from jiyi.text import analyse

__all__ = ["RULE_POINTS", "Rule", "RuleMeaning", "find_rules", "rule_meaning", "rule_predicate"]

RULE_POINTS: Mapping[str, tuple[str, str]] = {
    "language": ("answer language", "回答语言"),
    "length": ("answer length", "回答长度"),
    "units": ("units", "单位"),
    "address": ("form of address", "称呼"),
}
"""What instructions settle that have one value at a time: by a key the names in English and Chinese."""

_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
_PUNCTUATION = " \t,，:：。.!！?？;；、—–-"
_MAX_RULE_CHARS = 240  # characters of an instruction
_OTHER_RULE = ("rule", "规则")


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
    forbids: bool  # it forbids
    releases: bool  # it says that something is not needed any more
    names: frozenset[str]  # the things it names, by one name in both languages
    terms: frozenset[str]  # these and its other words, without those that only tell how it is asked


class _RuleCues(NamedTuple):
    hints: tuple[str, ...]
    patterns: Mapping[str, re.Pattern[str]]
    verbs: frozenset[str]  # which begin lasting instructions; English only
    forbidden_verbs: frozenset[str]  # what an assistant is told not to do; English only

    def matches(self, name: str, text: str) -> bool:
        return self.patterns[name].search(text) is not None


def find_rules(sentence: str, message: str) -> Iterator[Rule]:
    """Yield the standing instructions to the assistant in a sentence of a user's message; pure.

    An instruction addresses the assistant and is meant for good or about the form of all answers.
    What is asked for once, about one thing, of others, in quotes or as a question is no instruction.
    """
    lower, chinese = sentence.lower(), is_chinese(sentence)
    cues = _load_cues("zh" if chinese else "en")
    if any(hint in lower for hint in cues.hints):
        yield from _RuleFinder(sentence, message, cues, chinese).rules()


class _RuleFinder:
    def __init__(self, sentence: str, message: str, cues: _RuleCues, chinese: bool) -> None:
        self._text, self._message = sentence, message
        self._cues, self._chinese = cues, chinese
        self._is_request = cues.matches("asking", sentence)

    def rules(self) -> Iterator[Rule]:
        quoted = [at.span() for at in load_patterns("rules", "splits")["quoted"].finditer(self._text)]
        pending_start, lasting = -1, False  # where words stand that belong to what follows
        about_others = False  # a clause before tells of somebody: "we use tabs, never spaces"
        for start, end in _split_parts(self._text):
            part = self._text[start:end]
            if any(at <= start < stop for at, stop in quoted):
                continue
            if self._cues.patterns["head"].match(part):
                pending_start = start if pending_start < 0 else pending_start
                lasting = lasting or self._cues.matches("for_good", part)
                continue
            first = start if pending_start < 0 else pending_start
            rule = self._read_part(first, end, part, lasting, about_others)
            if rule is not None:
                if self._cues.matches("reports", self._text):
                    return
                yield rule
            elif self._cues.matches("subject", part):
                lasting, about_others = False, True
            pending_start = -1

    def _read_part(self, start: int, end: int, part: str, lasting: bool, about_others: bool) -> Rule | None:
        if len(part) > _MAX_RULE_CHARS:
            return None
        cues = self._cues
        text = self._text[start:end].strip(_PUNCTUATION)
        start = self._text.index(text, start)
        end = start + len(text)
        if not self._is_request and self._lifts_rule(part) and not cues.matches("once", part.strip()):
            return Rule(start, end, text, (rule_predicate("", self._chinese),), "end", lifts=True)
        lasting = lasting or cues.matches("for_good", part)
        if self._is_request and not (lasting and cues.matches("modal", part)):
            return None
        is_asked = self._is_asked_zh if self._chinese else self._is_asked_en
        if not is_asked(part, lasting, about_others):
            return None
        rest = self._message.replace(self._text, " ", 1)  # if it asks for one thing, this tells how to do it
        is_task = not lasting and (cues.matches("asking", rest) or cues.matches("task", rest))
        if is_task or cues.matches("once", part.strip()):
            return None
        meaning = rule_meaning(text)
        settled = () if meaning.forbids else tuple(meaning.points)
        points = tuple(rule_predicate(point, self._chinese) for point in settled or ("",))
        withdrawn = meaning.forbids and meaning.points and cues.matches("no_more", part)
        return Rule(start, end, text, points, "end" if withdrawn else "state")

    def _lifts_rule(self, part: str) -> bool:
        """Return whether something is allowed again, or no longer asked for, that a rule can be about."""
        cues = self._cues
        match = cues.patterns["allow"].match(part) or cues.patterns["release"].match(part)
        if match is None:
            return False
        topic = " ".join(filter(None, match.groupdict().values())).strip()
        if rule_meaning(topic).names:
            return True
        if self._chinese:
            return cues.matches("acts", topic) or cues.matches("form", topic)
        return bool(_leading_verb(topic, cues.forbidden_verbs)) and not cues.matches("bound", topic)

    def _is_asked_en(self, part: str, lasting: bool, about_others: bool) -> bool:
        cues, part = self._cues, part.strip(_PUNCTUATION)
        lead, rest = self._split_lead(part)
        negation = None if cues.matches("denies", lead) else cues.patterns["neg"].match(rest)  # never skip
        if negation:
            _, rest = self._split_lead(rest[negation.end() :].strip())
        on_topic = cues.matches("topic", rest) or (lasting and cues.matches("topic_for_good", rest))
        if on_topic and negation is None:
            return True
        verb = _leading_verb(rest, cues.forbidden_verbs | cues.verbs, ending=negation is not None)
        polite = negation is not None or lasting or cues.matches("polite", part)
        if not (rest and (verb or polite)):
            return False
        form = cues.matches("form", rest)
        if form and polite and not about_others and cues.patterns["noun"].match(rest):
            return True
        if not verb or lasting:
            return bool(verb)
        if verb in ("talk", "discuss", "speak", "chat") and re.search(r"\bonly\b", lead, re.I):
            return True
        if cues.matches("bound", rest) and not (form and cues.patterns["keeps"].match(rest)):
            return False
        return form if negation is None else (form or verb in cues.forbidden_verbs) and " " in rest

    def _is_asked_zh(self, part: str, lasting: bool, _about_others: bool) -> bool:
        cues, part = self._cues, part.strip(_PUNCTUATION)
        lead, rest = self._split_lead(part)
        negation = cues.patterns["neg"].match(part) or cues.matches("denies", lead)
        begins = lead or negation or cues.patterns["form"].match(part)
        if not begins or cues.patterns["subject"].match(part):
            return False
        if not (lasting and lead) and cues.matches("bound", part):
            return False
        about_form = cues.matches("form", part) and not cues.matches("bound", part)
        if about_form or (negation and cues.matches("acts", part)):
            return True
        return lasting and bool(lead) and cues.patterns["asks"].match(rest) is not None

    def _split_lead(self, text: str) -> tuple[str, str]:
        """Return what leads up to what is asked ("please always"), and the rest."""
        lead = self._cues.patterns["lead"].match(text)
        end = lead.end() if lead else 0
        return text[:end], text[end:]


def _split_parts(sentence: str) -> Iterator[tuple[int, int]]:
    begin, breaks = 0, load_patterns("rules", "splits")
    cuts = sorted(cut.span() for name in ("part", "conjunction") for cut in breaks[name].finditer(sentence))
    for start, end in [*cuts, (len(sentence), len(sentence))]:
        if sentence[begin:start].strip(_PUNCTUATION):
            yield begin, start
        begin = max(begin, end)


def _leading_verb(text: str, verbs: frozenset[str], *, ending: bool = True) -> str:
    """Return the base of the verb that a text begins with, with ``ending`` that of its -ing too, or ""."""
    if (match := _WORD.match(text)) is None:
        return ""
    word = match[0].lower()
    stem = word.removesuffix("ing")
    bases = (word, stem, f"{stem}e", stem[:-1]) if ending and stem != word else (word,)
    return next((base for base in bases if base in verbs), "")


def rule_predicate(point: str, chinese: bool) -> str:
    """Return the predicate of an instruction; ``point`` is a key of `RULE_POINTS`, or "" for any other."""
    return (RULE_POINTS[point] if point else _OTHER_RULE)[chinese]


@lru_cache(maxsize=1 << 10)
def rule_meaning(text: str) -> RuleMeaning:
    """Return what an instruction is about; pure."""
    aside = load_patterns("rules", "aside")
    values = {point: _first_value(point, text) for point in RULE_POINTS}
    names: set[str] = set()
    rest = text
    for section in ("values.language", "things", "values.length", "values.units"):
        for name, pattern in load_patterns("rules", section).items():
            if pattern.search(text):
                names.add(name)
                rest = pattern.sub(" ", rest)
    cues = load_patterns("rules", "meaning")
    rest = cues["lone"].sub(" ", cues["passing"].sub(" ", rest))
    return RuleMeaning(
        points={point: value for point, value in values.items() if value and not aside[point].search(text)},
        forbids=cues["denies"].search(text) is not None,
        releases=cues["releases"].search(text) is not None,
        names=frozenset(names),
        terms=frozenset(names) | frozenset(analyse(rest)),
    )


def _first_value(point: str, text: str) -> str:
    """Return the value that a text names first for a point, "" for none."""
    values = load_patterns("rules", f"values.{point}").items()
    matches = [(match, name) for name, pattern in values if (match := pattern.search(text))]
    if not matches:
        return ""
    match, name = min(matches, key=lambda found: found[0].start())
    captured = [value for value in match.groupdict().values() if value]
    return captured[0].strip().casefold() if captured else name


@cache
def _load_cues(language: Literal["en", "zh"]) -> _RuleCues:
    data = load_table("rules")[language]
    verbs, forbidden = (frozenset(data.get("words", {}).get(name, "").split()) for name in ("verbs", "asks"))
    known = frozenset(load_table("words")["verbs"].split()) if language == "en" else frozenset[str]()
    cues = {**load_patterns("rules", language), "denies": load_patterns("rules", "meaning")["denies"]}
    return _RuleCues(tuple(data["hints"]), cues, verbs | known, forbidden)
