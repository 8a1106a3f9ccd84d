"""Reads what a message states, Chinese and English, without a language model: a clause is a statement."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from itertools import islice
from typing import Any

from jiyi.extraction import attribution
from jiyi.extraction.attribution import About, Asked, about, is_listed, named_thing
from jiyi.extraction.clauses import VALUE, Clause, clauses_of, is_chinese, sentences
from jiyi.extraction.forms import Form, forms_in, has_sign, meant, read_tool_lines, takes_back
from jiyi.extraction.rules import Rule, rules_in
from jiyi.extraction.scoring import Scene, Span, chosen
from jiyi.extraction.statement import Statement
from jiyi.extraction.times import first_day_ahead, validity
from jiyi.records import Message, Role, single_valued
from jiyi.text.modality import Mode, modes

__all__ = ["extract", "extract_message"]

_MOST_CHARS = 4_000
_MOST_CHARS_OF_ASSISTANTS = 1_500  # they write much and state little
_MOST_STATEMENTS = 40  # of one message
_ASSISTANTS = 0.45  # the highest certainty of what they say
_SUPPOSED = 0.5  # certainty from which a "would" in the sentence does not keep a value out
_PLAIN = 0.6  # certainty from which an assistant's words count
_NAMED = 0.6  # certainty of what names its point
_OPEN_EN, _OPEN_ZH = 0.4, 0.5  # certainty from which what names no point is kept
_FORM = 0.75  # certainty of what a turn of phrase says in full
_TELLING_EN, _TELLING_ZH = 4, 8  # words, characters of a clause that can stand alone
_SHORT_ZH = 5  # characters of a sentence that names no point and says nothing
_SENTENCE = 200  # characters of a sentence that is kept in place of a clause of it
_UNASKED = Asked()
_NO_MODE = Mode(0)
_PLAN = Form("", "plans", "plan")
_OF_PERSONS = frozenset({"profile", "relation"})
_LATER = frozenset({"plan", "todo"})  # values inside of them are no statements of their own
_MARKS = " \t,，:：。.!！?？;；'’\"“”「」『』`-–—…"
_FIRST = re.compile(r"(?:I|we|me|my|mine|our|我们?|咱们?|俺)\Z", re.I)
_OWN = re.compile(r"(?:my|our) |(?:我们?|咱们?)的?家?的?(?=[\u4e00-\u9fff])", re.I)
_NO_VALUE = re.compile(
    r"(?:your?s?|you're|says?|said|what|who|which|how (?:much|many))\b|[你您]"
    r"|换人|.{0,6}(?:多少|什么|哪[里儿个天]|几[点个号]|谁|啥)\Z",
    re.I,
)
# My brother Dev.
_CALLED = re.compile(r"(?:[Mm]y|[Oo]ur) (?:[a-z-]{1,30} ){1,4}((?:[A-Z][\w'’-]{0,30} ?){1,4})\Z")
_SETTLED = frozenset({"date", "clock", "weekday", "money", "phone", "number", "email", "host", "code"})
_SAMPLE = 400  # characters before a pronoun in which a person is looked for
_Span = tuple[datetime | None, datetime | None]  # from when, until when
_TURNED = re.compile(r"[\dA-Z]\s?[号线楼路栋室班点元块]?\s?[换改升降调转挪]")  # 6021 换 6088
_LEADING = re.compile(r"(?:the|an?|this|that) |把|[这那][个台]", re.I)


@dataclass(slots=True)
class _Reader:
    speaker: str
    role: Role
    said_at: datetime
    zone: tzinfo
    before: Sequence[str]  # the texts of the messages before, the last one last
    text: str  # of the message
    asked: Asked = _UNASKED  # what the message before asks for
    topic: str = ""  # what was named last, before the sentence
    here: str = ""  # and in it
    now: str = ""  # the sentence
    heard: str = ""  # those before it
    spoken: Asked = _UNASKED  # the point that was spoken of last: "it"
    before_mode: Mode = _NO_MODE  # of the sentence before

    def read(self) -> Iterator[Statement]:
        self.asked = attribution.asked_for(self.before[-1]) if self.before else _UNASKED
        for place, sentence in enumerate(sentences(self.text)):
            mode = modes(sentence)
            until = meant(sentence, mode)
            rules = list(rules_in(sentence, self.text)) if self.role == "user" else []
            rules = [rule for rule in rules if not takes_back(rule.text)]
            if self.role == "user" and not rules and mode & Mode.RETRACTED and takes_back(sentence):
                if until == len(sentence):
                    erases = has_sign("taking_back.erases", sentence)
                    yield self._new(sentence, category="note", action="retract", erases=erases)
            elif not (until or rules):
                self.topic = next(filter(None, map(named_thing, clauses_of(sentence))), self.topic)
            else:
                scene = Scene(mode, self.asked.kind, len(self.text), place, sentence[-1])
                yield from (self._ruled(rule, point) for rule in rules for point in rule.points)
                yield from self._sentence(sentence, scene, until, rules)
            self.before_mode = mode
            self.heard += f"{sentence}\n"

    def _sentence(
        self, sentence: str, scene: Scene, until: int, rules: Sequence[Rule]
    ) -> Iterator[Statement]:
        taken = [(rule.start, rule.end) for rule in rules]
        values, others_spoken_of, said = list(taken), list[tuple[tuple[int, int], str]](), set[str]()
        clauses = clauses_of(sentence)
        self.now, self.here = sentence, ""
        for form, match in forms_in(sentence[:until]):
            at = match.span()
            value = match.span("o" if match.re.groupindex.get("o") and match["o"] else 0)
            # "I work as a nurse at St James's" says two points of a person in one stretch.
            beside = form.category in _OF_PERSONS and not _overlaps(value, values)
            supposed = scene.modes & Mode.HYPOTHETICAL and form.category not in _LATER
            maybe = form.action in ("end", "over") and has_sign("unmeant.open", _around(match, clauses))
            fits = not (supposed or maybe) and (beside or not _overlaps(at, taken))
            if fits and (statement := self._formed(form, match, scene.modes, clauses)):
                taken.append(at)
                values.append(value if form.category in _OF_PERSONS else at)
                if statement.subject != self.speaker:
                    others_spoken_of.append((at, statement.subject))
                said.add(statement.predicate)
                yield statement
        for clause in clauses:
            if clause.words[-1].end > until:
                break
            found: list[Statement] = []
            whole = clause.words[0].start, clause.words[-1].end
            self.here = next((name for at, name in others_spoken_of if _overlaps(at, [whole])), self.here)
            for span, sure in self._answer(clause) or chosen(clause, scene):
                at = clause.words[span.first].start, clause.words[span.last - 1].end
                supposed = scene.modes & Mode.HYPOTHETICAL and sure < _SUPPOSED
                if supposed or _overlaps(at, taken) or _denied(clause, span) or _bound(clause, span):
                    continue
                if statement := self._valued(clause, span, sure, scene.modes):
                    found.append(statement)
            if formed := _overlaps(whole, taken):
                found = [f for f in found if single_valued(f.predicate) and f.predicate not in said]
            yield from (found := _worth_keeping(found))
            if not formed and not found:
                spoken = attribution.spoken_of(clause, self._meant)
                self.spoken = spoken if spoken.point else self.spoken
            told = "" if formed else named_thing(clause) or attribution.told_of(clause, self.speaker)
            self.here = next((one.subject for one in found if one.subject != self.speaker), told or self.here)
        self.topic = self.here or self.topic

    def _answer(self, clause: Clause) -> list[tuple[Span, float]]:
        """Return a value that alone answers what was asked just before."""
        word = clause.words[0]
        alone = self.asked.kind and not self.heard and clause.parts == len(clause.words) == 1
        return [(Span(0, 1, word.cls[1:]), _FORM)] if alone and word.cls[0] == VALUE else []

    def _ruled(self, rule: Rule, point: str) -> Statement:
        said = {"object": "" if rule.lifts else rule.text, "action": rule.action, "confidence": _FORM}
        return self._new(rule.text, category="rule", subject=self.speaker, predicate=point, **said)

    def _valued(self, clause: Clause, span: Span, sure: float, mode: Mode) -> Statement | None:
        words = clause.words
        value = self.now[words[span.first].start : words[span.last - 1].end].strip(_MARKS)
        if not value or _NO_VALUE.match(value):
            return None
        first = next((word.text for word in words if word.cls != "adv"), "")
        it = is_listed(first, "spoken_of") and span.kind in _SETTLED and bool(self.spoken.point)
        asked = self.spoken if it else self.asked
        whose: dict[str, Any] = {"speaker": self.speaker, "topic": self.here, "meant": self._meant}
        said = about(clause, span, self.now, asked=asked, **whose)
        if said.predicate == self.asked.point:  # one value answers
            self.asked = self.asked._replace(point="")
        subject, named = said.subject, single_valued(said.predicate)
        if is_listed(subject, "third"):  # nobody was named
            subject = "" if named or is_listed(subject, "of_people") else self.speaker
        if not subject or is_listed(subject, "you") or subject == value:
            return None
        if self.role != "user" and (subject == self.speaker or sure < _PLAIN or not named):
            return None
        quote = _own_words(clause, self.now, subject, alone=named)
        if not named:
            past = span.kind == "does" and is_listed(words[span.first].text, "passing")
            past = past or any(is_listed(word.text, "happens") for word in words)
            short = clause.chinese and not self._answer(clause)
            past = past or (short and len(quote.strip(_MARKS).replace(" ", "")) < _SHORT_ZH)
            if sure < (_OPEN_ZH if clause.chinese else _OPEN_EN) or past:
                return None
        elif self.role == "user":
            sure = _NAMED
        at = validity(self.now, mode, self.said_at, self.zone, value)
        sure = round(sure if self.role == "user" else min(sure, _ASSISTANTS), 2)
        return self._said(quote, said._replace(subject=subject), value, mode, at=at, confidence=sure)

    def _formed(
        self, form: Form, match: re.Match[str], mode: Mode, clauses: Sequence[Clause]
    ) -> Statement | None:
        groups, quote = match.groupdict(), _around(match, clauses) or self.now
        value = (groups.get("o") or groups.get("q") or "").strip(_MARKS)
        predicate = form.predicate or groups.get("p") or groups.get("q") or ""
        whom = groups.get("s")
        subject = self._subject(whom, form.category, match.start("s") if whom else 0)
        if not value or (whom and (not subject or is_listed(subject, "you"))) or _NO_VALUE.match(value):
            return None
        if self.role != "user" and (subject == self.speaker or not single_valued(predicate)):
            return None
        if not predicate and subject:
            subject, predicate = self._parted(subject, alone=bool(groups.get("old")))
            if is_listed(subject, "points") and (is_chinese(subject) or is_listed(subject, "personal")):
                subject, predicate = self.speaker, subject
        predicate = "alias" if form.action == "rename" else predicate
        at: _Span = None, None
        taste = form.category == "preference"
        if taste and has_sign("times.for_now", self.now):
            mode |= Mode.TEMPORARY
        if form.category in _LATER or form.later:
            begins = first_day_ahead(self.now, self.said_at, self.zone)
            at = begins if begins and begins > self.said_at else None, None
            if form.later and not at[0]:  # nobody knows when: a plan
                form, predicate, value = _PLAN, _PLAN.predicate, groups["w"]
        elif form.action != "rename" and not (taste and not mode & Mode.TEMPORARY):
            moved = form.category == "attribute" and not form.predicate
            at = validity(self.now if moved else quote, mode, self.said_at, self.zone, value)
        old, sure = (groups.get("old") or "").strip(_MARKS), _FORM if self.role == "user" else _ASSISTANTS
        more: dict[str, Any] = {"action": form.action, "confidence": sure}
        said = About(subject, predicate, form.category)
        return self._said(quote, said, value, mode, at=at, old=old, **more)

    def _said(
        self, quote: str, said: About, value: str, mode: Mode, *, at: _Span, old: str = "", **more: Any
    ) -> Statement:
        wrong = (old and single_valued(said.predicate)) or (mode | self.before_mode) & Mode.CORRECTED
        changed = mode & Mode.CHANGED or _TURNED.search(quote)
        whose = {"category": said.category, "subject": said.subject, "replaces": old}
        predicate = said.predicate
        if predicate and self.role != "user":  # marked, so that it replaces nothing that users say
            predicate += "（助手）" if is_chinese(predicate) else " (assistant)"
        held = {"predicate": predicate, "object": self.speaker if _FIRST.match(value) else value}
        when = {"valid_from": at[0], "valid_to": at[1], "corrects": bool(wrong and not changed)}
        return self._new(quote, **whose, **held, **when, **more)

    def _subject(self, said: str | None, category: str, at: int) -> str:
        """Return the name of what a turn of phrase is about; without one it is the speaker."""
        if said is None:
            return self.speaker if category != "attribute" else ""
        name = said.strip(_MARKS)
        if _FIRST.match(name):
            return self.speaker
        if is_listed(name, "third"):
            return self._meant(name, at)
        if named := _CALLED.match(name):
            return named[1]
        own = _OWN.match(name)
        name = _LEADING.sub("", name[own.end() :] if own else name, count=1).strip(_MARKS)
        return attribution.of_speaker(name, self.speaker, is_chinese(name)) if own else name

    def _parted(self, name: str, *, alone: bool) -> tuple[str, str]:
        """Part "edge-02's port"; with ``alone`` a point may stand for itself: "the port is not 8443"."""
        owner, point = attribution.named_point(name, is_chinese(name))
        return (owner.strip(" 的"), point) if point and (owner or alone) else (name, "")

    def _meant(self, pronoun: str, at: int) -> str:
        """Return whom or what a pronoun means that stands at a place of the sentence, "" for nobody."""
        if is_listed(pronoun, "of_people"):
            told = (f"{self.heard}{self.now[:at]}", *reversed(self.before))
            return attribution.person_meant([text[-_SAMPLE:] for text in told], pronoun, self.speaker)
        return self.here or self._earlier(self.now[:at])

    def _earlier(self, here: str) -> str:
        """Return what was named last: in what stands ``here`` before it, in the message or before that."""
        if here and (there := [one for one in map(named_thing, clauses_of(here)) if one]):
            return there[-1]
        said = (one for text in reversed(self.before) for one in reversed(list(sentences(text[:400]))))
        named = (named_thing(clause) for sentence in said for clause in reversed(clauses_of(sentence)))
        return self.topic or next(filter(None, named), "")

    def _new(self, quote: str, **fields: Any) -> Statement:
        by: dict[str, Any] = {"speaker": self.speaker, "by_person": self.role == "user"}
        return Statement(quote=quote.strip(), said_at=self.said_at, **by, **fields)


def extract(
    text: str,
    *,
    speaker: str | None,
    role: Role,
    said_at: datetime,
    zone: tzinfo,
    context: Sequence[str] = (),
) -> list[Statement]:
    """Return what a message states; pure, under half a millisecond for most messages.

    Of a tool's output only names with values are read, of an assistant's words only named points of
    things, with less certainty. What is asked, supposed, denied, only reported, made up or meant in
    jest gives nothing.

    Args:
        text: the first 4,000 characters are read, 1,500 of an assistant's.
        speaker: whom "I" means, "user" without one.
        said_at, zone: aware; what "until Friday" means, by the calendar there.
        context: the texts of the messages before, the last one last: what a short answer
            answers, and whom "she" may mean.
    """
    sample = text[: _MOST_CHARS_OF_ASSISTANTS if role == "assistant" else _MOST_CHARS]
    if role == "system" or not sample.strip():
        return []
    if role == "tool":
        name = "tool" if speaker in (None, "", "user") else speaker  # no tool speaks for the user
        return list(islice(read_tool_lines(sample, speaker=name, said_at=said_at), _MOST_STATEMENTS))
    if has_sign("unmeant.message", sample):
        return []
    name = speaker or ("user" if role == "user" else role)
    reader = _Reader(name, role, said_at, zone, context, sample)
    found: dict[tuple[str, str, str, str], Statement] = {}
    for statement in reader.read():
        key = (statement.action, statement.subject, statement.predicate, statement.object or statement.quote)
        found.setdefault(key, statement)
        if len(found) == _MOST_STATEMENTS:
            break
    return list(found.values())


def extract_message(message: Message, zone: tzinfo, context: Sequence[str] = ()) -> list[Statement]:
    """Return what a message states, with it as the source; nothing where it has no date. See `extract`."""
    if message.created_at is None:
        return []
    said: dict[str, Any] = {"speaker": message.name, "role": message.role, "said_at": message.created_at}
    found = extract(message.text, zone=zone, context=context, **said)
    return [replace(statement, source=message.id) for statement in found]


def _around(match: re.Match[str], clauses: Sequence[Clause]) -> str:
    start, end = match.span()
    inside = [one for one in clauses if one.words[0].start < end and start < one.words[-1].end]
    return match.string[inside[0].words[0].start : max(end, inside[-1].words[-1].end)] if inside else ""


def _own_words(clause: Clause, sentence: str, subject: str, *, alone: bool) -> str:
    """Return the words of a clause, or of its sentence where the clause says too little ``alone``."""
    said = sentence[clause.words[0].start : clause.words[-1].end]
    enough = len(said) >= _TELLING_ZH if clause.chinese else len(clause.words) >= _TELLING_EN
    return said if alone or enough or subject in said or len(sentence) > _SENTENCE else sentence


def _worth_keeping(found: Sequence[Statement]) -> list[Statement]:
    """Return of what names no point the surest, and nothing that another statement is only about."""
    named = [one for one in found if single_valued(one.predicate)]
    guesses = [one for one in found if not single_valued(one.predicate)]
    surest = max(guesses, key=lambda one: one.confidence, default=None)
    if surest and any(one.subject in surest.object for one in named):
        surest = None
    kept = [one for one in found if one is surest or one in named]
    subjects = {one.subject for one in kept}
    return [one for one in kept if one.object not in subjects]


def _overlaps(at: tuple[int, int], taken: Sequence[tuple[int, int]]) -> bool:
    return any(at[0] < end and start < at[1] for start, end in taken)


def _denied(clause: Clause, span: Span) -> bool:
    """Return whether a span ends with what something is not, or is what that is not said of."""
    words = clause.words
    after = words[span.last].cls if span.last < len(words) else ""
    if span.kind in ("code", "host") and not span.first and after in ("own", "neg", "be", "point"):
        return True
    if words[span.last - 1].cls[0] != VALUE:
        return False
    before = [word.cls for word in words[: span.last - 1] if word.cls not in ("be", "adv", "prep")]
    return before[-1:] == ["neg"]


def _bound(clause: Clause, span: Span) -> bool:
    """Return whether a date only says from when or until when something holds."""
    word = clause.words[span.first]
    if word.text in ("从", "自", "到") and span.last > span.first + 1:
        word = clause.words[span.first + 1]
    before = clause.words[span.first - 1].text.lower() if span.first else ""
    after = clause.words[span.last].text if span.last < len(clause.words) else ""
    dated = word.cls in (VALUE + "date", VALUE + "weekday")
    return dated and (
        clause.words[span.last - 1].text in ("起", "开始")
        or after in ("起", "开始", "以后")
        or before in ("until", "till", "from", "since", "starting", "从", "自")
    )
