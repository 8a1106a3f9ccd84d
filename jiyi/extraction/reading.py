"""Reads the statements of a message in Chinese or English without a language model, clause by clause."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from itertools import islice
from typing import Any

from jiyi.extraction import attribution, forms
from jiyi.extraction.attribution import Attribution, Question, attribute_value, first_name, is_listed
from jiyi.extraction.clauses import (
    VALUE,
    Clause,
    is_chinese,
    quote_around,
    quote_clause,
    split_clauses,
    split_sentences,
)
from jiyi.extraction.rules import Rule, find_rules
from jiyi.extraction.scoring import SentenceContext, Span, is_time_limit, select_spans
from jiyi.extraction.statement import Statement
from jiyi.extraction.times import first_upcoming_day, parse_validity
from jiyi.extraction.values import kind_of_value, last_like, load_patterns
from jiyi.records import Message, Role, single_valued
from jiyi.text.traits import Mode, modes

__all__ = ["extract", "extract_message"]

_MAX_CHARS, _MAX_STATEMENTS = 4_000, 40  # of one message
_MAX_ASSISTANT_CHARS, _ASSISTANT_CONFIDENCE = 1_500, 0.45  # assistants write much and state little
_MIN_HYPOTHETICAL, _MIN_ASSISTANT = 0.5, 0.6  # scores from which a "would", an assistant's value count
_MIN_UNNAMED_EN, _MIN_UNNAMED_ZH = 0.4, 0.5  # score from which a value without a point counts
_MIN_CHANGED_ZH = 0.25  # the same for what is said to have changed: it ends an older value
_UPDATES = Mode.CHANGED | Mode.REVERTED | Mode.TEMPORARY
_NAMED_CONFIDENCE, _PHRASE_CONFIDENCE = 0.6, 0.75  # of a value with a named point, of a phrase
_MIN_UNNAMED_CHARS_ZH = 5  # of a quote without a point; shorter ones say nothing
_NO_QUESTION, _NO_MODE, _PLAN = Question(), Mode(0), forms.Phrase("", "plans", "plan")
_PERSONAL, _FUTURE = frozenset({"profile", "relation", "preference"}), frozenset({"plan", "todo"})
_PUNCTUATION = " \t,，:：。.!！?？;；'’\"“”「」『』`-–—…"
_MY = re.compile(r"(?:my|our) |(?:我们?|咱们?|俺们?)的?家?的?(?:[那这][个张台]?)?(?=[\u4e00-\u9fff])", re.I)
_LEAD = re.compile(r"\A(?:called |named |的\s?(?=\d)|设?的是?\s?(?=\d)|[改换调变][成到为]了?\s?(?=\S))")
_NAMED_RELATIVE = re.compile(r"(?:[Mm]y|[Oo]ur) (?:[a-z-]{1,30} ){1,4}((?:[A-Z][\w'’-]{0,30} ?){1,4})\Z")
_EXACT_KINDS = frozenset({"date", "clock", "weekday", "money", "phone", "number", "email", "host", "code"})
_ANNOUNCED_CHARS = 60  # in which a change is announced before its new value
_PRONOUN_CONTEXT = 400  # characters before a pronoun that are searched for a person
_Validity = tuple[datetime | None, datetime | None]  # from when, until when
_DETERMINER = re.compile(r"(?:the|an?|this|that) |把|[这那][个台]", re.I)


@dataclass(slots=True)
class _Reader:
    speaker: str
    role: Role
    said_at: datetime
    zone: tzinfo
    earlier: Sequence[str]  # the texts of the previous messages, the last one last
    text: str  # of this message
    question: Question = _NO_QUESTION  # what the previous message asks for
    topic: str = ""  # what was named last before the current sentence
    current: str = ""  # what was named last in it
    sentence: str = ""
    text_before: str = ""  # the sentences before it
    mentioned: Question = _NO_QUESTION  # the point that was mentioned last: "it"
    previous_mode: Mode = _NO_MODE  # of the previous sentence
    previous: str = ""  # the previous sentence
    named: str = ""  # the point that it mentions

    def read(self) -> Iterator[Statement]:
        self.question = attribution.parse_question(self.earlier[-1]) if self.earlier else _NO_QUESTION
        for index, sentence in enumerate(split_sentences(self.text)):
            mode = modes(sentence)
            mode |= Mode.TEMPORARY if forms.has_cue("times.day_only", sentence) else _NO_MODE
            asserted = forms.asserted_end(sentence, mode)
            rules = list(find_rules(sentence, self.text)) if self.role == "user" else []
            rules = [rule for rule in rules if not forms.has_cue("taking_back.asked", rule.text)]
            self.named = self.mentioned.point if self.mentioned.point in self.previous else ""
            yield from (update := [*self._update(sentence)])
            retracts = mode & Mode.RETRACTED and forms.has_cue("taking_back.asked", sentence)
            if update and not self.question.kind:
                pass
            elif self.role == "user" and not rules and retracts:
                if asserted == len(sentence):
                    erases = forms.has_cue("taking_back.erases", sentence)
                    yield self._statement(sentence, category="note", action="retract", erases=erases)
            elif not (asserted or rules):
                self.topic = next(filter(None, map(first_name, split_clauses(sentence))), self.topic)
            else:
                context = SentenceContext(mode, self.question.kind, len(self.text), index, sentence[-1])
                yield from (self._rule_statement(rule, point) for rule in rules for point in rule.points)
                yield from self._read_sentence(sentence, context, asserted, rules)
            self.previous_mode, self.previous = mode, sentence
            self.text_before += f"{sentence}\n"

    def _update(self, sentence: str) -> Iterator[Statement]:
        """Yield the value that a sentence gives instead of the last one of its kind: "make it 9091"."""
        match = load_patterns("forms", "value")["update"].match(sentence)
        if match is None or self.role != "user" or (self.named and not match["wrong"]):
            return
        value, said = match["o"].strip(_PUNCTUATION), [self.text_before, *reversed(self.earlier)]
        person = attribution.find_person(said, "they", self.speaker)
        old = person if kind_of_value(value) == "name" else last_like(value, said)
        fields: dict[str, Any] = {"object": value, "replaces": old, "confidence": _PHRASE_CONFIDENCE}
        if old:
            yield self._statement(sentence, corrects=bool(match["wrong"]), **fields)

    def _read_sentence(
        self, sentence: str, context: SentenceContext, asserted: int, rules: Sequence[Rule]
    ) -> Iterator[Statement]:
        taken = [(rule.start, rule.end) for rule in rules]
        values, subjects, predicates = list(taken), list[tuple[tuple[int, int], str]](), set[str]()
        clauses = split_clauses(sentence)
        self.sentence, self.current = sentence, ""
        for phrase, match in forms.find_phrases(sentence[:asserted]):
            at = match.span()
            value = match.span("o" if match.re.groupindex.get("o") and match["o"] else 0)
            # "I work as a nurse at St James's" states two points of a person in one phrase.
            beside = phrase.category in _PERSONAL and not _overlaps(value, values)
            supposed = context.modes & Mode.HYPOTHETICAL and phrase.category not in _FUTURE
            ends = phrase.action in ("end", "over")
            quote = quote_around(match, clauses, sentence)
            uncertain = supposed or (ends and forms.has_cue("unmeant.open", quote))
            unnamed = self.named and not (match.re.groupindex.keys() - {"o", "n"} or phrase.predicate)
            fits = not (uncertain or unnamed) and (beside or not _overlaps(at, taken))
            if fits and (statement := self._phrase_statement(phrase, match, context.modes, quote)):
                taken.append(at)
                values.append(value if phrase.category in _PERSONAL else at)
                if statement.subject != self.speaker and (is_chinese(sentence) or not ends):
                    subjects.append((at, statement.subject))
                predicates.add(statement.predicate)
                yield statement
        for clause in clauses:
            if clause.words[-1].end > asserted:
                break
            found: list[Statement] = []
            whole = clause.words[0].start, clause.words[-1].end
            self.current = next((name for at, name in subjects if _overlaps(at, [whole])), self.current)
            for span, score in self._bare_answer(clause) or select_spans(clause, context):
                at = clause.words[span.first].start, clause.words[span.last - 1].end
                excluded = _is_denied(clause, span) or is_time_limit(clause, span) or _overlaps(at, taken)
                if excluded or (context.modes & Mode.HYPOTHETICAL and score < _MIN_HYPOTHETICAL):
                    continue
                if statement := self._value_statement(clause, span, score, context.modes):
                    found.append(statement)
            if has_phrase := _overlaps(whole, taken):
                found = [it for it in found if single_valued(it.predicate) and it.predicate not in predicates]
            yield from (found := _drop_weak(found))
            if not has_phrase and not found:
                mentioned = attribution.mentioned_point(clause, self._resolve_pronoun)
                self.mentioned = mentioned if mentioned.point else self.mentioned
            if not has_phrase:
                named = first_name(clause) or attribution.leading_person(clause, self.speaker)
                self.current = named or self.current
            others = (item.subject for item in found if item.subject != self.speaker)
            self.current = next(others, self.current)
        self.topic = self.current or self.topic

    def _bare_answer(self, clause: Clause) -> list[tuple[Span, float]]:
        """Return the value of a message that is nothing but an answer to a question."""
        word = clause.words[0]
        bare = self.question.kind and not self.text_before and clause.clause_count == len(clause.words) == 1
        return [(Span(0, 1, word.tag[1:]), _PHRASE_CONFIDENCE)] if bare and word.tag[0] == VALUE else []

    def _rule_statement(self, rule: Rule, point: str) -> Statement:
        fields: dict[str, Any] = {"object": "" if rule.lifts else rule.text, "confidence": _PHRASE_CONFIDENCE}
        fields |= {"category": "rule", "subject": self.speaker, "predicate": point, "action": rule.action}
        return self._statement(rule.text, **fields)

    def _value_statement(self, clause: Clause, span: Span, score: float, mode: Mode) -> Statement | None:
        words = clause.words
        start, end = words[span.first].start, words[span.last - 1].end
        value = _LEAD.sub("", self.sentence[start:end].strip(_PUNCTUATION))
        called = value[:1] == "我" and self.sentence[:start].endswith("叫")
        if not value or called or forms.has_cue("value.none", value):
            return None
        first = next((word.text for word in words if word.tag != "adv"), "")
        rest = [word for word in (*words[: span.first], *words[span.last :]) if word.tag != "adv"]
        point = "" if is_listed(self.mentioned.point, "who") else self.mentioned.point
        near = (part for part in (self.previous, self.sentence) if point in part)
        lasts = not (rest or mode & (Mode.TEMPORARY | Mode.REVERTED))
        renewed = lasts and any(forms.has_cue("value.renewed", part) for part in near)
        it = (renewed or is_listed(first, "spoken_of")) and span.kind in _EXACT_KINDS and point != ""
        question = self.mentioned if it else self.question
        people: dict[str, Any] = {"speaker": self.speaker, "resolve": self._resolve_pronoun}
        place = clause, span, self.sentence
        found = attribute_value(*place, topic=self.current, question=question, **people)
        another = found[:2] == (self.speaker, "name") and self.question.point != "name"  # her name is Canela
        if found.predicate == self.question.point:  # one value answers
            self.question = self.question._replace(point="")
        subject, named = found.subject, single_valued(found.predicate)
        if is_listed(subject, "third"):  # nobody was named
            subject = "" if named or is_listed(subject, "of_people") else self.speaker
        past = any(is_listed(word.text, "before_now") for word in words[: span.first])
        if past or another or not subject or is_listed(subject, "you") or subject == value:
            return None
        if self.role != "user" and (subject == self.speaker or score < _MIN_ASSISTANT or not named):
            return None
        quote = quote_clause(clause, self.sentence, subject, alone=named)
        if not named:
            passing = span.kind == "does" and is_listed(words[span.first].text, "passing")
            changed = mode & _UPDATES == Mode.CHANGED and not forms.has_cue("value.as_before", self.sentence)
            today = not changed and forms.has_cue("value.passing", self.sentence)
            passing = passing or today or any(is_listed(word.text, "happens") for word in words)
            least = _MIN_CHANGED_ZH if changed else _MIN_UNNAMED_ZH
            length = len(quote.strip(_PUNCTUATION).replace(" ", ""))
            short = clause.chinese and length < _MIN_UNNAMED_CHARS_ZH and not self._bare_answer(clause)
            if passing or short or score < (least if clause.chinese else _MIN_UNNAMED_EN):
                return None
        elif self.role == "user":
            score = _NAMED_CONFIDENCE
        validity = parse_validity(self.sentence, mode, self.said_at, self.zone, value)
        score = round(score if self.role == "user" else min(score, _ASSISTANT_CONFIDENCE), 2)
        found = found._replace(subject=subject)
        return self._build_statement(quote, found, value, mode, at=validity, confidence=score)

    def _phrase_statement(
        self, phrase: forms.Phrase, match: re.Match[str], mode: Mode, quote: str
    ) -> Statement | None:
        groups = match.groupdict()
        value = (groups.get("o") or groups.get("q") or "").strip(_PUNCTUATION)
        predicate = phrase.predicate or groups.get("p") or groups.get("q") or ""
        at = match.start("s" if groups.get("s") else 0)
        named = groups.get("s") or (self._changed_before(at) if "then" in groups else "") or None
        subject = self._resolve_subject(named, phrase.category, at)
        unknown = named and (not subject or is_listed(subject, "you"))
        old = (groups.get("old") or "").strip(_PUNCTUATION)
        role = phrase.action == "state" and is_chinese(old) and attribution.split_point(old, chinese=True)[1]
        nothing = not value or role or (groups.get("then") and not named)  # 医生 is no old value
        if nothing or unknown or forms.has_cue("value.none", value):
            return None
        if self.role != "user" and (subject == self.speaker or not single_valued(predicate)):
            return None
        if not predicate and subject:
            owner, point = attribution.split_point(subject, is_chinese(subject))
            if point and (owner or groups.get("old")):  # no owner: "the port is not 8443"
                subject, predicate = owner.strip(" 的"), point
            if is_listed(subject, "who") and kind_of_value(value) in ("money", "number", "phone", "code"):
                return None  # the doctor put it up to 40
            if is_listed(subject, "point") and (is_chinese(subject) or is_listed(subject, "personal")):
                subject, predicate = self.speaker, subject
        predicate = "alias" if phrase.action == "rename" else predicate
        if groups.get("p") and phrase.category == "relation":
            value = re.sub(r"['’]s\Z", "", value)  # my friend Gemma's coming over
        validity: _Validity = None, None
        taste = phrase.category == "preference"
        if taste and forms.has_cue("times.for_now", self.sentence):
            mode |= Mode.TEMPORARY
        if phrase.category in _FUTURE or phrase.later:
            start = first_upcoming_day(self.sentence, self.said_at, self.zone)
            validity = start if start and start > self.said_at else None, None
            if phrase.later and not validity[0]:  # nobody knows when: a plan
                phrase, predicate, value = _PLAN, _PLAN.predicate, groups["w"]
        elif phrase.action != "rename" and not (taste and not mode & Mode.TEMPORARY):
            moved = phrase.category == "attribute" and not phrase.predicate
            validity = parse_validity(self.sentence if moved else quote, mode, self.said_at, self.zone, value)
        confidence = _PHRASE_CONFIDENCE if self.role == "user" else _ASSISTANT_CONFIDENCE
        fields: dict[str, Any] = {"action": phrase.action, "confidence": confidence, "old": old}
        found = Attribution(subject, predicate, phrase.category)
        return self._build_statement(quote, found, value, mode, at=validity, **fields)

    def _build_statement(
        self, quote: str, found: Attribution, value: str, mode: Mode, *, at: _Validity, **fields: Any
    ) -> Statement | None:
        old = fields.pop("old", "")
        brief = not at[1] and fields.get("action", "state") == "state"
        brief = brief and (found.category == "attribute" or not single_valued(found.predicate))
        if brief and forms.has_cue("value.for_once", self.sentence):
            return None
        wrong = (old and single_valued(found.predicate)) or (mode | self.previous_mode) & Mode.CORRECTED
        changed = mode & Mode.CHANGED or forms.has_cue("value.changed", quote)
        owner = {"category": found.category, "subject": found.subject, "replaces": old}
        predicate = found.predicate
        if predicate and self.role != "user":  # marked, so that it replaces nothing that users say
            predicate += "（助手）" if is_chinese(predicate) else " (assistant)"
        bare = load_patterns("forms", "value")["filler"].sub("", value)  # 3443 then
        value = self.speaker if forms.has_cue("value.first_person", value) else bare
        times = {"valid_from": at[0], "valid_to": at[1], "corrects": bool(wrong and not changed)}
        return self._statement(quote, **owner, predicate=predicate, object=value, **times, **fields)

    def _resolve_subject(self, text: str | None, category: str, at: int) -> str:
        """Return the subject of a phrase; the speaker if it names none."""
        if text is None:
            return self.speaker if category != "attribute" else ""
        name = re.sub(r"['’]s\Z", "", text.strip(_PUNCTUATION))
        if forms.has_cue("value.first_person", name):
            return self.speaker
        if is_listed(name, "third"):
            return self._resolve_pronoun(name, at)
        if relative := _NAMED_RELATIVE.match(name):
            return relative[1]
        my = _MY.match(name)
        name = _DETERMINER.sub("", name[my.end() :] if my else name, count=1).strip(_PUNCTUATION)
        own = my or (category != "attribute" and is_chinese(name) and is_listed(name, "kin"))
        return attribution.possessive(name, self.speaker, is_chinese(name)) if own else name

    def _changed_before(self, at: int) -> str:
        """Return what was said to have changed just before a position of the sentence, "" for nothing."""
        said = "\n".join((*self.earlier[-2:], self.text_before + self.sentence[:at]))
        found = load_patterns("forms", "value")["announced"].search(said[-_ANNOUNCED_CHARS:])
        return found["s"] if found else ""

    def _resolve_pronoun(self, pronoun: str, at: int) -> str:
        """Return whom or what a pronoun at a position of the sentence means, "" if unknown."""
        if is_listed(pronoun, "of_people"):
            texts = (f"{self.text_before}{self.sentence[:at]}", *reversed(self.earlier))
            if forms.has_cue("unmeant.story", texts[0]):
                return ""
            return attribution.find_person([one[-_PRONOUN_CONTEXT:] for one in texts], pronoun, self.speaker)
        return self.current or self._last_named(self.sentence[:at])

    def _last_named(self, text: str) -> str:
        """Return the last name or thing in ``text``, else the last name in earlier sentences or messages."""
        said = split_clauses(text)
        sentences = (
            part for earlier in reversed(self.earlier) for part in reversed([*split_sentences(earlier[:400])])
        )
        before = (
            first_name(clause) for sentence in sentences for clause in reversed(split_clauses(sentence))
        )
        named = (*map(attribution.last_thing, said), *map(first_name, said))
        return next(filter(None, reversed(named)), "") or self.topic or next(filter(None, before), "")

    def _statement(self, quote: str, **fields: Any) -> Statement:
        by: dict[str, Any] = {"speaker": self.speaker, "by_person": self.role == "user"}
        return Statement(quote=quote.strip(), said_at=self.said_at, **by, **fields)


def extract(
    text: str,  # the first 4,000 characters are read, 1,500 of an assistant's
    *,
    speaker: str | None,  # whom "I" means, "user" by default
    role: Role,
    said_at: datetime,  # aware; with the zone it settles what "until Friday" means
    zone: tzinfo,
    context: Sequence[str] = (),  # the previous messages, oldest first: what is answered, who "she" is
) -> list[Statement]:
    """Return the statements of a message; pure, under half a millisecond for most messages.

    A tool's output gives only names with values, an assistant's text only named points of things, with
    less confidence. What is asked, supposed, denied, reported, made up or a joke gives nothing, nor
    what others say of themselves in quotation marks.
    """
    sample = text[: _MAX_ASSISTANT_CHARS if role == "assistant" else _MAX_CHARS]
    unmeant = role != "tool" and forms.has_cue("unmeant.message", sample)
    if unmeant or role == "system" or not sample.strip():
        return []
    if role == "tool":
        name = "tool" if speaker in (None, "", "user") else speaker  # no tool speaks for the user
        return list(islice(forms.tool_settings(sample, speaker=name, said_at=said_at), _MAX_STATEMENTS))
    name = speaker or ("user" if role == "user" else role)
    reader = _Reader(name, role, said_at, zone, context, forms.without_speech(sample))
    statements: dict[tuple[str, str], Statement] = {}
    for new in reader.read():
        corrects = new.replaces if not (new.subject or new.predicate) else ""  # a value just stated
        found = [key for key, one in statements.items() if corrects and corrects in one.object]
        statement = replace(statements.pop(found[-1]), object=new.object, quote=new.quote) if found else new
        plain = bool(statement.object) and single_valued(statement.predicate)  # else only its words count
        point = f"{statement.subject}\n{statement.predicate}\n{statement.object}"
        statements.setdefault((statement.action, point if plain else statement.quote), statement)
    return list(islice(statements.values(), _MAX_STATEMENTS))


def extract_message(message: Message, zone: tzinfo, context: Sequence[str] = ()) -> list[Statement]:
    """Return the statements of a message that has a date as by `extract`, with their source."""
    fields: dict[str, Any] = {"speaker": message.name, "role": message.role, "said_at": message.created_at}
    statements = extract(message.text, zone=zone, context=context, **fields)
    return [replace(statement, source=message.id) for statement in statements]


def _drop_weak(found: Sequence[Statement]) -> list[Statement]:
    """Keep one statement at most without a point, and none that only names another's subject."""
    named = [statement for statement in found if single_valued(statement.predicate)]
    guesses = [statement for statement in found if not single_valued(statement.predicate)]
    surest = max(guesses, key=lambda statement: statement.confidence, default=None)
    claimed = surest and any(statement.subject in surest.object for statement in named)
    kept = [one for one in found if one in named or (one is surest and not claimed)]
    subjects = {statement.subject for statement in kept}
    return [statement for statement in kept if statement.object not in subjects]


def _overlaps(at: tuple[int, int], taken: Sequence[tuple[int, int]]) -> bool:
    return any(at[0] < end and start < at[1] for start, end in taken)


def _is_denied(clause: Clause, span: Span) -> bool:
    """Return whether a span is a negated value, or the thing that is said not to have one."""
    words = clause.words
    after = words[span.last].tag if span.last < len(words) else ""
    if span.kind in ("code", "host") and not span.first and after in ("own", "neg", "be", "point"):
        return True
    if words[span.last - 1].tag[0] != VALUE:
        return False
    before = words[max(span.first - 1, 0)]
    label = before.tag == "n" or is_listed(before.text, "things")  # bus 19 goes there
    if span.kind == "number" and label and after in ("verb", "be", "aux"):
        return True
    earlier = [word.tag for word in words[: span.last - 1] if word.tag not in ("be", "adv", "prep")]
    return earlier[-1:] == ["neg"]
