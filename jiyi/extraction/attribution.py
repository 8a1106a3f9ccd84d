"""Whom or what a value is about, and which point of it, from the words around it."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from jiyi.extraction.clauses import VALUE, Clause, clauses_of, is_chinese, sentences
from jiyi.extraction.scoring import Span
from jiyi.extraction.values import patterns, table
from jiyi.records import FactCategory

__all__ = [
    "About",
    "Asked",
    "about",
    "asked_for",
    "is_listed",
    "named_point",
    "named_thing",
    "of_speaker",
    "person_meant",
    "spoken_of",
    "told_of",
]

_NAMES = frozenset({"N", "nr", "ns", VALUE + "code", VALUE + "host"})
_NOUNS = _NAMES | {"n", "M", "adj", "num", "point", "kin", VALUE + "quoted"}
_LOOSE = frozenset({"be", "prep", "det", "adv", "talk", "own", "aux"})
_OF = ("'s", "’s", "的")
_MOST_ASKED = 120  # characters at the end of a question that are looked at
_IDENTIFIER = re.compile(r"\A(?:[A-Za-z]\w*(?:[-_./]\w+)+|[A-Za-z]+\d\w*)\Z")
_CHANGES = re.compile(r"[改换调挪]")  # in a verb: it tells of no point
_VERSION = re.compile(r"\d{1,3}\.\d{1,3}\Z")
_INSIDE = re.compile(r"[A-Z0-9]")  # in a word after its first letter: no name of a person


class About(NamedTuple):
    """The subject and the point of a value."""

    subject: str  # "" where the clause names none
    predicate: str  # in brackets where only the kind of the value tells it
    category: FactCategory


class Asked(NamedTuple):
    """What a question asks for."""

    kind: str = ""  # of value, "" for no question
    point: str = ""  # that it names
    whose: str = ""  # the name, the thing or the pronoun whose point it is; "" for whom it is put to
    own: bool = False  # it is a thing of the one it is put to: your dog


class _Phrase(NamedTuple):
    first: int
    last: int
    text: str
    own: bool  # the speaker's: my, 我的


def about(
    clause: Clause,
    span: Span,
    sentence: str,
    *,
    speaker: str,
    topic: str,
    meant: Callable[[str, int], str],
    asked: Asked,
) -> About:
    """Return what a value is about.

    Args:
        clause, span, sentence: the clause it stands in, which words of it, what the clause was cut from.
        speaker: whom "I" means.
        topic: what the sentence has named before: what is left out.
        meant: whom or what a pronoun means that stands at a place of the sentence, "" for nobody.
        asked: what the message before asks for: the point that a short answer takes.
    """
    chinese = clause.chinese
    phrases = _phrases(clause, span, sentence)
    owner, point = "", ""
    if phrases:
        owner, point = named_point(phrases[-1].text, chinese)
    if len(phrases) > 1 and not point and clause.words[phrases[0].last].text in ("of", "for", "on"):
        first, named = named_point(phrases[0].text, chinese)
        if named and not first:  # the port of edge-02
            return _found(phrases[1].text, named, speaker)
    rest = phrases[:-1] if point else phrases
    person = _person(clause, rest[0].first if rest else span.first, speaker, meant)
    own = bool(phrases) and phrases[-1 if point else 0].own
    between = clause.words[phrases[0].last : phrases[-1].first] if point else ()
    if point and owner:
        subject = of_speaker(owner, speaker, chinese) if own else owner
    elif any(word.text in ("me", "us") for word in clause.words[1 : span.first]):
        subject = speaker  # they moved me to days
    elif point.lower() in _words()["personal"] and {"verb", "prep"} & {word.cls for word in between}:
        subject = speaker  # the landlord put the rent up
    elif rest and (person is None or rest[0].own):
        subject = of_speaker(rest[0].text, speaker, chinese) if rest[0].own else rest[0].text
    elif person == "" and not (asked.point and not phrases):
        return _found("", point, speaker)
    else:
        subject = person or (speaker if own else topic)
    if point and not subject:
        return _of_nobody(point, span, speaker, chinese)
    subject = subject or speaker
    if point:
        return _found(subject, point, speaker)
    if asked.point and not phrases and len(clause.words) <= 4:
        others = person and not is_listed(clause.words[0].text, "it")
        whose = "" if others else _whose(asked, speaker, lambda: meant("it", 0))
        whose = whose or person or ""
        return (
            _found(whose, asked.point, speaker) if whose else _of_nobody(asked.point, span, speaker, chinese)
        )
    return _guessed(clause, span, subject, bool(rest or (person and person != speaker)), speaker)


def _of_nobody(point: str, span: Span, speaker: str, chinese: bool) -> About:
    """Return a point of the speaker's, or of its own: the time of the dentist, else its value."""
    if chinese or point.lower() in _words()["personal"]:
        return _found(speaker, point, speaker)
    label: str = _words()["kinds"].get(span.kind, ("is",))[0]
    return _found(point, label if label in _words()["telling"] else "value", speaker)


def asked_for(text: str) -> Asked:
    """Return what a text asks for."""
    asks = patterns("forms", "asks")
    if not asks["any"].search(text):
        return Asked()
    kind = next(name for name, pattern in asks.items() if pattern.search(text))
    found = (_point_in(clause, kind) for clause in reversed(clauses_of(text[-_MOST_ASKED:])))
    return next((one for one in found if one.point), Asked(kind))


def _point_in(clause: Clause, kind: str) -> Asked:
    words = clause.words
    place = max((at for at, word in enumerate(words) if word.cls == "point"), default=-1)
    if place < 0:
        return Asked()
    point = words[place].text
    if place > 1 and words[place - 1].text in _OF and words[place - 2].cls in _NOUNS:
        before = words[place - 3].text.lower() if place > 2 else ""
        return Asked(kind, point, words[place - 2].text, before in _words()["you"])
    others = (word.text for word in words if word.text.lower() in _words()["third"])
    return Asked(kind, point, next(others, ""))


def spoken_of(clause: Clause, meant: Callable[[str, int], str]) -> Asked:
    """Return the point that a clause speaks of: "her birthday is coming up"."""
    found = _point_in(clause, "")
    if not is_listed(found.whose, "third"):
        return found
    whose = meant(found.whose, clause.words[-1].end)
    return found._replace(whose=whose) if whose else Asked()


def person_meant(texts: Sequence[str], pronoun: str, speaker: str) -> str:
    """Return the name of the last person in texts, the newest first, whom a pronoun can mean, "" for nobody.

    The sex is known of relatives ("my sister Meera"). A name that begins its sentence may be any word:
    it counts only where no other does.
    """
    other = "female" if is_listed(pronoun, "male") else "male"
    for text in texts:
        found = [one for sentence in sentences(text) for one in _people(sentence, speaker) if one[1] != other]
        if found:
            return max(enumerate(found), key=lambda one: (one[1][2], one[0]))[1][0]
    return ""


def _people(sentence: str, speaker: str) -> Iterator[tuple[str, str, bool]]:
    """Give the people that a sentence names, their sex where it is told, and whether that is sure."""
    for clause in clauses_of(sentence):
        words, at = clause.words, 0
        while at < len(words):
            word, first = words[at], at
            before = words[at - 1].text.lower() if at else ""
            at += 1
            while at < len(words) and words[at].cls in ("N", "nr") and word.cls in ("N", "nr", "kin"):
                at += 1
            name = sentence[words[first + (word.cls == "kin" and at > first + 1)].start : words[at - 1].end]
            if word.cls == "kin":
                sex = next((sex for sex in ("male", "female") if is_listed(word.text, f"{sex}_kin")), "")
                if at > first + 1:
                    yield name, sex, True
                elif is_listed(before, "me"):
                    yield of_speaker(name, speaker, clause.chinese), sex, True
            elif word.cls == "nr" or (
                word.cls == "N" and not is_listed(before, "no_person") and not clause.chinese
            ):
                if not _INSIDE.search(word.text[1:]):
                    yield name, "", True
            elif word.cls == "M" and (words[at:] or words)[0].cls in ("verb", "be", "M"):
                yield name, "", False


def _whose(asked: Asked, speaker: str, earlier: Callable[[], str]) -> str:
    if asked.own:
        return of_speaker(asked.whose, speaker, is_chinese(asked.whose))
    if is_listed(asked.whose, "third"):
        return earlier() or asked.whose
    return asked.whose or (speaker if asked.point.lower() in _words()["personal"] else earlier())


def named_thing(clause: Clause) -> str:
    """Return the first name in a clause, "" for none."""
    words = clause.words
    for place, word in enumerate(words):
        if word.cls in _NAMES and len(word.text) > 1:
            last = place + 1
            while last < len(words) and words[last].cls == word.cls == "N":
                last += 1
            return " ".join(one.text for one in words[place:last])
    return ""


def told_of(clause: Clause, speaker: str) -> str:
    """Return whom a Chinese clause begins with, "" for nobody: the next clause may leave them out."""
    word, rest = clause.words[0], [one for one in clause.words[1:] if one.cls != "adv"]
    if not (clause.chinese and rest and (rest[0].cls == "verb" or rest[-1].text == "了")):
        return ""
    if word.cls == "kin":
        return of_speaker(word.text, speaker, chinese=True)
    doubled = len(word.text) == 2 and word.text[0] == word.text[1] and word.cls in ("n", "adj")
    return word.text if doubled or word.cls == "nr" else ""


def is_listed(word: str, name: str) -> bool:
    """Return whether a word is in a list of words.toml: "you", "third" for pronouns, or "passing"."""
    return word.lower() in _words()[name]


def of_speaker(name: str, speaker: str, chinese: bool) -> str:
    """Return the name of what belongs to a speaker: "Ana's mom", "林芷的妈"."""
    return f"{speaker}的{name}" if chinese else f"{speaker}'s {name}"


def named_point(text: str, chinese: bool) -> tuple[str, str]:
    """Return what stands before the point that a phrase ends with, and the point, "" for none."""
    points = _words()["points"]
    if chinese:
        for size in range(min(7, len(text)), 1, -1):
            if text[-size:] in points:
                owner, _, qualified = text[:-size].rpartition("的")
                qualified = "" if qualified in _words()["newly"] else qualified
                if not owner and 0 < len(qualified) <= 2 and not qualified.isascii():
                    return "", text  # 对外超时
                return (owner or qualified).strip(), text[-size:]
        return text, ""
    words = text.split()
    for size in (3, 2, 1):
        last = " ".join(words[-size:])
        if len(words) >= size and (last.lower() in points or last.lower().removesuffix("s") in points):
            owner = re.sub(r"['’]s\Z", "", " ".join(words[:-size]))
            return "" if owner.lower() in _words()["newly"] else owner, last
    return text, ""


def _phrases(clause: Clause, span: Span, sentence: str) -> list[_Phrase]:
    """Return the nouns before a value, in their order; 的 and 's between them join them."""
    found: list[_Phrase] = []
    words = clause.words
    at = 0
    while at < span.first:
        if words[at].cls not in _NOUNS:
            at += 1
            continue
        first = at
        while at < span.first and (
            words[at].cls in _NOUNS
            or (words[at].text in _OF and at + 1 < span.first and words[at + 1].cls in _NOUNS)
        ):
            at += 1
        before = [word.text.lower() for word in words[max(0, first - 2) : first]]
        own = before[-1:] in (["my"], ["our"]) or (
            clause.chinese
            and before[-1:] != []
            and (before[-1] if words[first].cls == "kin" or before[-1] != "的" else before[0])
            in _words()["me"]
            and (words[first].cls in ("kin", "point") or before[-1] == "的")
        )
        names = [word for word in words[first:at] if word.cls in _NAMES and _IDENTIFIER.match(word.text)]
        text, last = sentence[words[first].start : words[at - 1].end], words[at - 1]
        if names and (last.cls not in ("point", names[0].cls) or (last is names[0] and clause.chinese)):
            text = names[0].text  # edge-02 网关
        found.append(_Phrase(first, at, text, own))
    return found


def _person(clause: Clause, until: int, speaker: str, meant: Callable[[str, int], str]) -> str | None:
    """Return whom the first pronoun of a clause means: "" for an "it" that stands for nothing named."""
    for word in clause.words[: max(until, 1)]:
        low = word.text.lower()
        if low in _words()["me"]:
            return speaker
        if low in _words()["third"]:
            return meant(low, word.start) or ("" if is_listed(low, "it") else word.text)
        if low in _words()["you"]:
            return word.text
    return None


def _guessed(clause: Clause, span: Span, subject: str, named: bool, speaker: str) -> About:
    """Return a point by the verb or, in brackets, by the kind of the value."""
    words, chinese = clause.words, clause.chinese
    verbs = [word.text for word in words[: span.first] if word.cls == "verb"]
    for verb in reversed(verbs):
        row = _words()["verbs"].get(verb.lower())
        before = words[span.first - 1].text if span.first else ""
        if row is not None and span.kind in row["kinds"] and before in row.get("after", before):
            theirs = row["category"] == "profile" and subject != speaker
            return About(subject, row["labels"][chinese], "attribute" if theirs else row["category"])
    inside = words[span.first : span.last]
    typed = [word.cls[1:] for word in inside if word.cls[0] == VALUE]
    if typed and all(word.cls[0] == VALUE or word.cls in _LOOSE for word in inside):
        span = span._replace(kind=typed[0])  # 9:45 every day
    label = kind_name = _words()["kinds"].get(span.kind, ("is", "是"))[chinese]
    if _VERSION.match(inside[0].text) and span.first and words[span.first - 1].text in ("on", "到"):
        label = "版本" if chinese else "version"
    plain = named and not verbs and len(words) <= 8 and label in _words()["telling"]
    if plain and any(word.cls == "be" for word in words[: span.first]):
        return _found(subject, label, speaker)
    verb = verbs[-1] if verbs and span.kind != "does" and not _CHANGES.search(verbs[-1]) else ""
    guess = f"{verb}（{kind_name}）" if chinese else f"{verb} ({kind_name})"
    return _found(subject, guess.strip(), speaker)


def _found(subject: str, predicate: str, speaker: str) -> About:
    return About(subject.strip(" '’"), predicate, "profile" if subject == speaker else "attribute")


@cache
def _words() -> dict[str, Any]:
    read = table("words")
    lists = {name: frozenset(words.split()) for name, words in read["persons"].items()}
    return lists | {
        "passing": frozenset(read["passing"].split()),
        "newly": frozenset(read["newly"].split()),
        "points": frozenset(word.replace("_", " ") for word in read["point"].split()),
        "personal": frozenset(read["personal"].replace("_", " ").split()),
        "verbs": {
            verb: row | {"kinds": row["kinds"].split()}
            for row in read["attribute"]
            for verb in row["verbs"].split()
        },
        "telling": frozenset(read["telling"].split()),
        "kinds": {kind: (en, zh) for en, (kinds, zh) in read["kinds"].items() for kind in kinds.split()},
    }
