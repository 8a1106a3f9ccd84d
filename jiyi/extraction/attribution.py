"""Finds the subject of a value and which point of it the value is, from the words around it."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import takewhile
from typing import Any, NamedTuple

from jiyi.extraction.clauses import VALUE, Clause, is_chinese, split_clauses, split_sentences
from jiyi.extraction.scoring import Span
from jiyi.extraction.statement import Statement
from jiyi.extraction.values import load_patterns, load_table
from jiyi.records import FactCategory

_NAME_TAGS = frozenset({"N", "nr", "ns", VALUE + "code", VALUE + "host"})
_NOUN_TAGS = _NAME_TAGS | {"n", "M", "adj", "num", "point", "kin", VALUE + "quoted"}
_FUNCTION_TAGS = frozenset({"be", "prep", "det", "adv", "talk", "own", "aux"})
_POSSESSIVE_MARKS = ("'s", "’s", "的")
_QUESTION_CHARS = 120  # that are read of the end of a question
_IDENTIFIER = re.compile(r"\A(?:[A-Za-z]\w*(?:[-_./]\w+)+|[A-Za-z]+\d\w*)\Z")
_CHANGE_VERB = re.compile(r"[改换调挪姓定选]|\A(?:call|nam)ed\Z")  # a verb that names no point
_VERSION = re.compile(r"\d{1,3}\.\d{1,3}\Z")
_NOT_IN_PERSON_NAME = re.compile(r"[A-Z0-9]|[班课店厂校院社组群]\Z")  # after the first letter of a word
_Resolve = Callable[[str, int], str]  # returns whom a pronoun at a position means, "" if unknown


class Attribution(NamedTuple):
    """The subject and the point of a value."""

    subject: str  # "" where the clause names none
    predicate: str  # in brackets where only the kind of the value tells it
    category: FactCategory


class Question(NamedTuple):
    """What a question asks for."""

    kind: str = ""  # of value, "" for no question
    point: str = ""  # that it names
    owner: str = ""  # the name, thing or pronoun that has the point; "" for the addressee
    own: bool = False  # the owner belongs to the addressee: your dog


class _NounPhrase(NamedTuple):
    first: int
    last: int
    text: str
    own: bool  # the speaker's: my, 我的


def attribute_value(
    clause: Clause,
    span: Span,
    sentence: str,
    *,
    speaker: str,  # whom "I" means
    topic: str,  # what the sentence named before, the subject of a clause without one
    resolve: _Resolve,
    question: Question,  # what the previous message asks for: a short answer gives its point
) -> Attribution:
    """Return the subject and the point of a value."""
    chinese = clause.chinese
    phrases, owner, point = _find_point(clause, span, _noun_phrases(clause, span, sentence))
    if phrases[1:] and (owner or not point) and clause.words[phrases[0].last].text in ("of", "for", "on"):
        before_point, outer_point = split_point(phrases[0].text, chinese)
        if outer_point and not before_point:  # the port of edge-02
            return _attribution(phrases[1].text, outer_point, speaker)
    rest = phrases[:-1] if point else phrases
    person = _pronoun_referent(clause, rest[0].first if rest else span.first, speaker, resolve)
    of = _possessor(clause, rest[0], speaker, resolve) if rest else ""
    holder = _possessor(clause, phrases[-1], speaker, resolve) if point else ""
    between = clause.words[phrases[0].last : phrases[-1].first] if point else ()
    told = any(is_listed(word.text, "third") for word in between)  # my boss says his rent is 600
    if point and owner:
        subject = owner if is_listed(holder or "it", "third") else possessive(owner, holder, chinese)
    elif holder not in ("", speaker):
        subject = holder  # my mate says his rent is 900
    elif any(word.text in ("me", "us") for word in clause.words[1 : span.first]):
        subject = speaker  # they moved me to days
    elif not told and point.lower() in _lists()["personal"] and {"verb", "prep"} & {w.tag for w in between}:
        subject = speaker  # the landlord put the rent up
    elif rest and (person is None or told or not is_listed(of or "it", "third")):
        subject = possessive(rest[0].text, of, chinese) if of else rest[0].text
    elif person == "" and not (question.point and not phrases):
        return _attribution("", point, speaker)
    else:
        subject = person or holder or topic
    if point:
        return _attribute_point(subject, point, span, speaker, chinese)
    if question.point and not phrases and len(clause.words) <= 4:
        about_another = person and not is_listed(clause.words[0].text, "it")
        owner = "" if about_another else _question_owner(question, speaker, lambda: resolve("it", 0))
        owner = owner or (question.kind and person) or ""
        return _attribute_point(owner, question.point, span, speaker, chinese)
    named = bool(rest or (person and person != speaker))
    return _guess_attribution(clause, span, subject or speaker, named, speaker)


def _find_point(clause: Clause, span: Span, phrases: list[_NounPhrase]) -> tuple[list[_NounPhrase], str, str]:
    """Return the noun phrases before a value, and the owner and point of the last; "" if it only acts."""
    owner, point = split_point(phrases[-1].text, clause.chinese) if phrases else ("", "")
    value, person = clause.words[span.first], is_listed(point, "who")
    after_point = clause.words[phrases[-1].last if phrases else 0 : span.first]
    number = span.kind in ("money", "amount", "number") or value.text.isdecimal()
    verb = next((word.tag for word in reversed(after_point) if word.tag not in ("adv", "prep")), "")
    tags = {word.tag for word in (*after_point, value) if not _CHANGE_VERB.search(word.text)}
    does = "verb" in tags or {"be", "prep"} <= tags
    takes = verb in ("verb", "aux") if number else does and value.tag[0] != VALUE
    acts = any(is_listed(word.text, "me") for word in after_point)  # my boss calls me Speedy
    if acts or (number and not does and person):
        return [phrase for phrase in phrases if phrase.text != point], "", ""
    if (takes and is_listed(point, "things")) or (does and person):  # my boss drives a van
        return phrases, "", ""
    return phrases, owner, point


def _possessor(clause: Clause, phrase: _NounPhrase, speaker: str, resolve: _Resolve) -> str:
    """Return whose a noun phrase is: the speaker's, that of whom "his" means, or "his"; "" for nobody's."""
    word = clause.words[max(phrase.first - 1, 0)]
    theirs = word.tag == "own" and is_listed(word.text, "of_people")
    return speaker if phrase.own else (resolve(word.text, word.start) or word.text) if theirs else ""


def _attribute_point(owner: str, point: str, span: Span, speaker: str, chinese: bool) -> Attribution:
    """Attribute a point to its owner, without one to the speaker, or make it the subject itself."""
    if owner or chinese or point.lower() in _lists()["personal"]:
        return _attribution(owner or speaker, point, speaker)
    label: str = _lists()["kinds"].get(span.kind, ("is",))[0]
    return _attribution(point, label if label in _lists()["telling"] else "value", speaker)


def ownerless_point(statement: Statement) -> str:
    """Return the point that quoted words name without saying whose it is ("the port is 9090"), "" if none."""
    subject, predicate = statement.subject, statement.predicate
    if not statement.quote or load_patterns("forms", "value")["mine"].search(statement.quote):
        return ""
    if subject == statement.speaker:
        return predicate if is_listed(predicate, "point") and not is_listed(predicate, "personal") else ""
    unnamed = predicate in ("value", "数值") or is_listed(predicate, "telling")
    return subject if unnamed and split_point(subject, is_chinese(subject))[1] == subject else ""


def parse_question(text: str) -> Question:
    """Return what a text asks for."""
    cues = load_patterns("forms", "asks")
    if not cues["any"].search(text):
        return Question()
    kind = next(name for name, pattern in cues.items() if pattern.search(text))
    questions = (_find_question_point(it, kind) for it in reversed(split_clauses(text[-_QUESTION_CHARS:])))
    return next((question for question in questions if question.point), Question(kind))


def _find_question_point(clause: Clause, kind: str) -> Question:
    words = clause.words
    place = max((at for at, word in enumerate(words) if word.tag == "point"), default=-1)
    if place < 0:
        return Question()
    run = takewhile(lambda word: word.tag == "point" and not clause.chinese, reversed(words[:place]))
    first = place - len([*run])
    named, point = split_point(" ".join(word.text for word in words[first : place + 1]), clause.chinese)
    named, point = (named, point) if point else ("", words[place].text)
    if first > 1 and words[first - 1].text in _POSSESSIVE_MARKS and words[first - 2].tag in _NOUN_TAGS:
        before = words[first - 3].text.lower() if first > 2 else ""
        return Question(kind, point, words[first - 2].text, before in _lists()["you"])
    pronoun = "third" if kind or clause.chinese else "of_people"
    pronouns = (word.text for word in words if is_listed(word.text, pronoun))
    return Question(kind, point, named or next(pronouns, ""))


def mentioned_point(clause: Clause, resolve: _Resolve) -> Question:
    """Return the point that a clause mentions: "her birthday is coming up"."""
    mentioned = _find_question_point(clause, "")
    if not is_listed(mentioned.owner, "third"):
        return mentioned
    owner = resolve(mentioned.owner, clause.words[-1].end)
    return mentioned._replace(owner=owner) if owner else Question()


def find_person(texts: Sequence[str], pronoun: str, speaker: str) -> str:
    """Return the last person in texts, the newest first, whom a pronoun can mean, or "".

    The sex of relatives is known ("my sister Meera"). A name at the start of a sentence may be any
    word, and counts only if there is no other.
    """
    other_sex = "female" if is_listed(pronoun, "male") else "male"
    for text in texts:
        said = enumerate(split_sentences(text))
        people = [(place, *person) for place, sentence in said for person in _find_people(sentence, speaker)]
        if people := [person for person in people if person[2] != other_sex]:
            return max(people, key=lambda it: (it[3], it[0], it[3] and it[2] != "", people.index(it)))[1]
    return ""


def _find_people(sentence: str, speaker: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the people that a sentence names, their sex if known, and whether it is surely a name."""
    for clause in split_clauses(sentence):
        words, at, names = clause.words, 0, ("nr",) if clause.chinese else ("nr", "N")
        while at < len(words):
            word, first = words[at], at
            kin = word.tag == "kin" or (word.tag == "point" and is_listed(word.text, "who"))
            earlier, before = ["", "", *(other.text.lower() for other in words[:at])][-2:]
            introduces = is_listed(earlier, "me") and words[at - 1].tag == "be"  # I'm Nadia
            at += 1
            while at < len(words) and words[at].tag in ("N", "nr") and (kin or word.tag in ("N", "nr")):
                at += 1
            name = sentence[words[first + (kin and at > first + 1)].start : words[at - 1].end]
            if kin:
                sex = next((sex for sex in ("male", "female") if is_listed(word.text, f"{sex}_kin")), "")
                if at > first + 1:
                    yield name, sex, True
                    continue
                mine = is_listed(before, "me") or (is_listed(before, "newly") and is_listed(earlier, "me"))
                mine = mine or (clause.chinese and before in ("", "和", "跟", "给", "让"))
                if mine or (before in ("a", "an", "new") and any(is_listed(w.text, "me") for w in words[:2])):
                    yield possessive(name, speaker, clause.chinese), sex, mine
            elif word.tag in names and not introduces and not is_listed(before, "no_person"):
                if not _NOT_IN_PERSON_NAME.search(word.text[1:]):
                    yield name, "", True
            elif word.tag == "M" and (words[at:] or words)[0].tag in ("verb", "be", "aux", "M"):
                yield name, "", False


def _question_owner(question: Question, speaker: str, last_named: Callable[[], str]) -> str:
    if question.own:
        return possessive(question.owner, speaker, is_chinese(question.owner))
    if is_listed(question.owner, "third"):
        return last_named() or question.owner
    own = is_listed(question.point, "personal")
    return question.owner or (speaker if own else question.kind and last_named())


def first_name(clause: Clause) -> str:
    """Return the first proper name in a clause, or ""."""
    for place, word in enumerate(clause.words):
        if word.tag in _NAME_TAGS and len(word.text) > 1:
            rest = takewhile(lambda part: part.tag == "N", clause.words[place + 1 :])
            return " ".join(part.text for part in (word, *(rest if word.tag == "N" else ())))
    return ""


def last_thing(clause: Clause) -> str:
    """Return the last noun of an English clause after an article or a possessive, or ""."""
    for place in range(len(clause.words) - 1, 0, -1):
        if clause.words[place - 1].tag in ("det", "own"):
            nouns = [*takewhile(lambda word: word.tag in ("n", "adj", "point"), clause.words[place:])]
            return nouns[-1].text if nouns and nouns[-1].tag != "point" else ""
    return ""


def leading_person(clause: Clause, speaker: str) -> str:
    """Return the person that a Chinese clause begins with, or "": the next clause may omit them."""
    mine = is_listed(clause.words[0].text, "me") and [word.tag for word in clause.words[1:2]] == ["kin"]
    word, rest = clause.words[mine], [other for other in clause.words[mine + 1 :] if other.tag != "adv"]
    if not (clause.chinese and rest and (rest[0].tag == "verb" or rest[-1].text == "了")):
        return ""
    if word.tag == "kin":
        return possessive(word.text, speaker, chinese=True)
    doubled = len(word.text) == 2 and word.text[0] == word.text[1] and word.tag in ("n", "adj")
    return word.text if doubled or word.tag == "nr" else ""


def is_listed(word: str, name: str) -> bool:
    """Return whether a word is in a list of words.toml, such as "you", "third" or "passing"."""
    return word.lower() in _lists()[name]


def possessive(name: str, speaker: str, chinese: bool) -> str:
    """Return the name of a thing or person with its owner: "Ana's mom", "林芷的妈"."""
    return f"{speaker}的{name}" if chinese else f"{speaker}'s {name}"


def split_point(text: str, chinese: bool) -> tuple[str, str]:
    """Split the point off the end of a phrase; return the rest and the point, "" for none."""
    points = _lists()["point"]
    if chinese:
        for size in range(min(7, len(text)), 1, -1):
            # "qbittorrent" names no rent
            if text[-size:] in points and not re.match(r"[A-Za-z-][a-z]", text[-size - 1 : 1 - size or None]):
                owner, _, qualified = text[:-size].rpartition("的")
                qualified = "" if qualified in _lists()["newly"] else qualified
                if not owner and 0 < len(qualified) <= 2 and not qualified.isascii():
                    of_person = len(qualified) == 1 and is_listed(text[-size:], "who")
                    return (text, "") if of_person else ("", text)  # 周老师; 对外超时
                return (owner or qualified).strip(), text[-size:]
        return text, ""
    words = text.split()
    for size in (3, 2, 1):
        last = " ".join(words[-size:])
        if len(words) >= size and (last.lower() in points or last.lower().removesuffix("s") in points):
            owner = re.sub(r"['’]s\Z", "", " ".join(words[:-size]))
            if owner.lower() not in _lists()["other"]:
                return "" if owner.lower() in _lists()["newly"] else owner, last
    return text, ""


def _noun_phrases(clause: Clause, span: Span, sentence: str) -> list[_NounPhrase]:
    """Return the noun phrases before a value in order; 的 and 's join nouns."""
    phrases: list[_NounPhrase] = []
    words, at = clause.words, 0
    is_noun = [word.tag in _NOUN_TAGS and not is_listed(word.text, "per") for word in words[: span.first]]
    while at < span.first:
        if not is_noun[at]:
            at += 1
            continue
        first = at
        while at < span.first and (
            is_noun[at] or (words[at].text in _POSSESSIVE_MARKS and any(is_noun[at + 1 : at + 2]))
        ):
            at += 1
        earlier, before = ["", "", *(word.text.lower() for word in words[max(first - 2, 0) : first])][-2:]
        me, tag = _lists()["me"], words[first].tag
        of_me = tag in ("kin", "point") and before in me  # 我妈
        if before == "的" and tag != "kin":
            of_me = earlier in me  # 我的网关
        own = before in ("my", "our") or (clause.chinese and of_me)
        names = [word for word in words[first:at] if word.tag in _NAME_TAGS and _IDENTIFIER.match(word.text)]
        text, last = sentence[words[first].start : words[at - 1].end], words[at - 1]
        if names and (last.tag not in ("point", names[0].tag) or (last is names[0] and clause.chinese)):
            text = names[0].text  # edge-02 网关
        phrases.append(_NounPhrase(first, at, text, own))
    return phrases


def _pronoun_referent(clause: Clause, until: int, speaker: str, resolve: _Resolve) -> str | None:
    """Return whom the first pronoun of a clause means, "" for an "it" that means nothing named."""
    for word in clause.words[: max(until, 1)]:
        low = word.text.lower()
        if low in _lists()["me"]:
            return speaker
        if low in _lists()["third"]:
            return resolve(low, word.start) or ("" if is_listed(low, "it") else word.text)
        if low in _lists()["you"]:
            return word.text
    return None


def _guess_attribution(clause: Clause, span: Span, subject: str, named: bool, speaker: str) -> Attribution:
    """Name the point after the verb or, in brackets, after the kind of value."""
    words, chinese = clause.words, clause.chinese
    verbs = [word.text for word in words[: span.first] if word.tag == "verb"]
    tags = {word.tag for word in words[: span.first]}
    rings = verbs == ["called"] and tags <= {"kin", "M", "N", "verb", "own", "adv"}  # nan called Ruth
    for verb in reversed(verbs):
        entry = _lists()["verbs"].get(verb.lower())
        before = words[span.first - 1].text if span.first else ""
        if entry is not None and entry["labels"][0] == "name" and (subject == speaker or rings):
            break  # we called her Mistral: only a turn of phrase names "I"
        if entry is not None and span.kind in entry["kinds"] and before in entry.get("after", before):
            of_another = entry["category"] == "profile" and subject != speaker
            category: FactCategory = "attribute" if of_another else entry["category"]
            return Attribution(subject, entry["labels"][chinese], category)
    inside = words[span.first : span.last]
    value_kinds = [word.tag[1:] for word in inside if word.tag[0] == VALUE]
    if value_kinds and all(word.tag[0] == VALUE or word.tag in _FUNCTION_TAGS for word in inside):
        span = span._replace(kind=value_kinds[0])  # 9:45 every day
    label = kind_name = _lists()["kinds"].get(span.kind, ("is", "是"))[chinese]
    if _VERSION.match(inside[0].text) and span.first and words[span.first - 1].text in ("on", "到"):
        label = "版本" if chinese else "version"
    is_plain = named and subject != speaker and not verbs and len(words) <= 8 and label in _lists()["telling"]
    if is_plain and "be" in tags:
        return _attribution(subject, label, speaker)
    verb = verbs[-1] if verbs and span.kind != "does" and not _CHANGE_VERB.search(verbs[-1]) else ""
    guess = f"{verb}（{kind_name}）" if chinese else f"{verb} ({kind_name})"
    return _attribution(subject, guess.strip(), speaker)


def _attribution(subject: str, predicate: str, speaker: str) -> Attribution:
    return Attribution(subject.strip(" '’"), predicate, "profile" if subject == speaker else "attribute")


@cache
def _lists() -> dict[str, Any]:
    """Return the lists of words.toml by name, and what its tables tell of verbs and kinds of value."""
    data = load_table("words")
    listed = {name: words for name, words in {**data, **data["persons"]}.items() if isinstance(words, str)}
    verbs = [(verb, row) for row in data["attribute"] for verb in row["verbs"].split()]
    lists = {name: frozenset(w.replace("_", " ") for w in text.split()) for name, text in listed.items()}
    return lists | {
        "verbs": {verb: row | {"kinds": row["kinds"].split()} for verb, row in verbs},
        "kinds": {kind: (en, zh) for en, (kinds, zh) in data["kinds"].items() for kind in kinds.split()},
    }
