"""Reads statements out of a message by patterns, Chinese and English, without a model."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from jiyi.extraction.en import POINTS_EN
from jiyi.extraction.en_people import PEOPLE_EN
from jiyi.extraction.points import POINT_EN, POINT_ZH, kind_of_value
from jiyi.extraction.retractions import erases, takes_back
from jiyi.extraction.rule import ME, Clause, Rule, Rules
from jiyi.extraction.sentences import clauses, is_chinese, sentences
from jiyi.extraction.statement import Statement
from jiyi.extraction.subjects import is_name, is_pronoun, own_subject, part, thing_of, tidy
from jiyi.extraction.times import first_day_ahead, validity
from jiyi.extraction.tool_lines import read_tool_lines
from jiyi.extraction.zh import POINTS_ZH
from jiyi.extraction.zh_people import PEOPLE_ZH
from jiyi.records import Role
from jiyi.text.modality import Mode, modes

__all__ = ["extract"]

_MOST_CHARS = 4_000
_MOST_CHARS_OF_ASSISTANTS = 1_500  # they write much and state little
_MOST_STATEMENTS = 40  # of one message
_ALL_OFF = Mode.ASKED | Mode.REPORTED
_CONDITION = re.compile(
    r"\b(?:if|unless|whether|suppose|supposing)\b|如果|要是|假如|假设|倘若|万一|是不是|是否|要不要", re.I
)
_CHINESE = Rules((*POINTS_ZH, *PEOPLE_ZH), re.compile(POINT_ZH))
_ENGLISH = Rules((*POINTS_EN, *PEOPLE_EN), re.compile(rf"\b{POINT_EN}", re.I))
_DENIAL = re.compile(
    r"\b(?:not|never|no longer|n't|isn't|wasn't|aren't)\b|n[’']t\b|(?<![差分区特告])(?:不|没|别|未"
    r"|无)(?!错|过|超|止"
    r"|同|管|锈|限|线)"
)
_EMPTY = re.compile(r"[\s\W_]*\Z")
_VAGUE = re.compile(
    r"(?:it|this|that|them|something|things?|stuff|好|对|行|是|多|少|大|小|快|慢|高|低|一样|ok|okay"
    r"|true|false|yes"
    r"|no|none|null|the|a|an)\Z",
    re.I,
)
_PERSONAL = re.compile(
    r"生日|年龄|身高|体重|电话|手机|邮箱|住址|血型|全名|昵称|职位|专业|工资|月薪|birthday|age|height"
    r"|weight|phone|email|position"
    r"|title|major|salary",
    re.I,
)
_SAME_POINT = {
    "天花板": "上限",
    "内网": "内网地址",
    "外网": "公网地址",
    "过期": "过期时间",
    "留存": "保留时间",
    "保留": "保留时间",
}
_VALUE_SIGN = re.compile(  # without one of these no clause holds the value of a point
    r"[\d\"“「`一二三四五六七八九十两半百千万周]|单位|\(\)|[^A-Za-z][A-Z]|[A-Za-z][-_./][A-Za-z]|[\u4e00-\u9fff]\s?[A-Za-z]"
    r"|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|noon|midnight)\b"
)
_DIGITS = re.compile(r"\d{1,4}\Z")
_ONLY_HAN = re.compile(r"[\u4e00-\u9fff]{0,4}\Z")
_WEAK_SUBJECT = re.compile(r"(?:I|we|it|he|she|they|you)\b", re.I)


@dataclass(slots=True)
class _Reader:
    """One message being read."""

    speaker: str
    role: Role
    said_at: datetime
    zone: tzinfo
    before: str  # what "it" stands for at the beginning of a sentence
    thing: str = ""  # what the sentence has spoken of so far: an omitted subject

    def read(self, text: str) -> Iterator[Statement]:
        before = ""
        for sentence in sentences(text):
            yield from self._sentence(sentence, before)
            self.before, self.thing, before = self.thing or self.before, "", sentence

    def _sentence(self, sentence: str, before: str) -> Iterator[Statement]:
        rules = _CHINESE if is_chinese(sentence) else _ENGLISH
        mode: Mode | None = None
        if self.role == "user" and takes_back(sentence):
            mode = modes(sentence)
            if mode & Mode.RETRACTED and not mode & _ALL_OFF and not _CONDITION.search(sentence):
                yield self._retraction(sentence)
                return
        taken: list[tuple[int, int]] = []
        for rule, match, clause in self._matches(rules, sentence):
            mode = modes(sentence) if mode is None else mode
            if mode & _ALL_OFF or _CONDITION.search(sentence):
                return
            start, end = clause.place + match.start("o"), clause.place + match.end("o")
            overlaps = any(start < other_end and end > other_start for other_start, other_end in taken)
            if overlaps or (mode & Mode.HYPOTHETICAL and modes(clause.text) & Mode.HYPOTHETICAL):
                continue
            statement = self._statement(rule, match, clause, mode)
            if statement is None:
                continue
            taken.append((start, end))
            if rule.category == "attribute" and not mode & Mode.CHANGED:
                corrects = bool((mode | modes(before)) & Mode.CORRECTED)
                statement = replace(statement, corrects=corrects)
            yield statement

    def _matches(self, rules: Rules, sentence: str) -> Iterator[tuple[Rule, re.Match[str], Clause]]:
        fitting = [rule for rule in rules.fitting(sentence) if self.role == "user" or not rule.own]
        if not fitting:
            self.thing = thing_of(sentence)
            return
        whole = Clause(text=sentence, sentence=sentence, place=0)
        for rule in fitting:
            match = rule.pattern.search(sentence) if rule.whole else None
            if match:
                yield rule, match, whole
        for clause in clauses(sentence):
            self.thing = thing_of(clause.text) or self.thing
            valued = _VALUE_SIGN.search(clause.text)
            for rule in fitting:
                useless = rule.whole or (rule.category == "attribute" and not valued)
                match = None if useless else rule.pattern.match(clause.text)
                if match:
                    yield rule, match, clause

    def _retraction(self, sentence: str) -> Statement:
        return Statement(
            category="note",
            quote=sentence,
            speaker=self.speaker,
            said_at=self.said_at,
            action="retract",
            erases=erases(sentence),
        )

    def _statement(self, rule: Rule, match: re.Match[str], clause: Clause, mode: Mode) -> Statement | None:
        groups = match.groupdict()
        value = (groups.get("o") or "").strip(' ，,。."“”「」`')
        if rule.action != "revert" and (_EMPTY.match(value) or _VAGUE.match(value)):
            return None
        denied = not rule.denied and not groups.get("old") and _DENIAL.search(clause.text) is not None
        if denied:
            return None
        named = self._named(rule, groups, value, clause)
        if named is None:
            return None
        subject, predicate = named
        if rule.predicate in ("负责人", "owner"):
            value = self.speaker if value in ("我", "me", "I") else value
        valid_from, valid_to = self._times(rule, clause, mode, value)
        return Statement(
            category="profile" if rule.category == "attribute" and subject == self.speaker else rule.category,
            subject=subject,
            predicate=predicate,
            object=value,
            quote=clause.text if rule.whole is False else clause.sentence,
            speaker=self.speaker,
            said_at=self.said_at,
            valid_from=valid_from,
            valid_to=valid_to,
            confidence=rule.confidence if self.role == "user" else min(rule.confidence, 0.45),
            action=rule.action,
            replaces=(groups.get("old") or "").strip(),
        )

    def _times(
        self, rule: Rule, clause: Clause, mode: Mode, value: str
    ) -> tuple[datetime | None, datetime | None]:
        if rule.category in ("plan", "todo"):
            start = first_day_ahead(clause.text, self.said_at, self.zone)
            start = start or first_day_ahead(clause.sentence, self.said_at, self.zone)
            return (start if start and start > self.said_at else None), None
        if rule.category in ("preference", "profile") or rule.action == "rename":
            return None, None
        return validity(clause.sentence, mode, self.said_at, self.zone, value)

    def _named(
        self, rule: Rule, groups: dict[str, str | None], value: str, clause: Clause
    ) -> tuple[str, str] | None:
        """Return subject and predicate of a match, or None where they name nothing."""
        predicate = rule.predicate or (groups.get("p") or "").strip()
        if rule.subject == ME:
            return (self.speaker, predicate) if predicate else None
        raw = groups.get("s") or ""
        if "me" in groups and groups["me"] is not None:
            return self.speaker, predicate
        if groups.get("f"):
            raw, predicate = self._parted(groups["f"] or "", clause)
        if groups.get("product"):
            predicate = f"{(groups['product'] or '').strip()} {predicate}"
        subject = self._subject(raw)
        if subject is None and groups.get("old"):
            subject = short if _DIGITS.match(short := tidy(raw)) else ""
        if subject is None:
            return None
        if not predicate and not groups.get("old") and rule.action == "state":
            if subject == self.speaker:
                return None
            kind = kind_of_value(value)
            if not rule.own:
                predicate = kind
                if kind in ("name", "amount"):
                    return None
        predicate = _SAME_POINT.get(point := predicate.strip(" 的"), point)
        if (
            rule.action == ("state")
            and not predicate
            and kind_of_value(value) == "name"
            and "old" not in groups
        ):
            return None
        return subject, predicate

    def _parted(self, words: str, clause: Clause) -> tuple[str, str]:
        """Part "edge-02's port"; a point alone is that of the thing spoken of, or a thing itself."""
        subject, predicate = part(words)
        if self.thing and clause.place > 0 and _ONLY_HAN.match(subject) and "的" not in words:
            return self.thing, words  # order-svc ..., 对外超时 3 秒
        if not tidy(subject) and not self.thing:
            if _PERSONAL.match(predicate):
                return "", predicate
            return predicate, "数值" if is_chinese(predicate) else "value"
        return subject, predicate

    def _subject(self, raw: str) -> str | None:
        raw = raw.strip()
        if not raw or is_pronoun(raw):
            return self.thing or (self.before if raw else "") or None
        own = own_subject(raw, self.speaker)
        if own is not None:
            return own if self.role == "user" and is_name(tidy(raw[1:]) or "x") else None
        name = tidy(raw)
        if not is_name(name) or _WEAK_SUBJECT.match(name):
            return None
        self.thing = name
        return name


def extract(
    text: str,
    *,
    speaker: str | None,
    role: Role,
    said_at: datetime,
    zone: tzinfo,
    context: Sequence[str] = (),
) -> list[Statement]:
    """Return what a message states, by patterns; pure, under half a millisecond for most messages.

    Args:
        text: the words of the message; the first 4,000 characters are read, 1,500 of an assistant's.
        speaker: who says it; what he says of himself is said of this name, "user" without one.
        role: of the message. Of a tool's output only lines such as ``key=value`` are read, of
            an assistant's words only points of things, with less confidence.
        said_at: when, aware: what "until Friday" means.
        zone: the days of the calendar are days there.
        context: things spoken of just before, the latest first: what "it" may stand for.

    What is asked, supposed, denied or only reported gives nothing. A wrong statement is
    worse than a missing one: what the patterns are not sure about is left out.
    """
    sample = text[: _MOST_CHARS_OF_ASSISTANTS if role == "assistant" else _MOST_CHARS]
    if role == "system" or not sample.strip():
        return []
    if role == "tool":
        return read_tool_lines(sample, speaker=speaker or "tool", said_at=said_at)[:_MOST_STATEMENTS]
    reader = _Reader(
        speaker=speaker or ("user" if role == "user" else role),
        role=role,
        said_at=said_at,
        zone=zone,
        before=context[0] if context else "",
    )
    found: dict[tuple[str, str, str, str], Statement] = {}
    for statement in reader.read(sample):
        key = (statement.action, statement.subject, statement.predicate, statement.object or statement.quote)
        found.setdefault(key, statement)
        if len(found) == _MOST_STATEMENTS:
            break
    return list(found.values())
