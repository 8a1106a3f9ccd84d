"""Whom "he", "she", 她 means: the last person named that it can mean."""

import re
from collections.abc import Iterator, Sequence

from jiyi.extraction.attribution import is_listed, of_speaker
from jiyi.extraction.clauses import clauses_of, sentences

__all__ = ["person_meant"]

_INSIDE = re.compile(r"[A-Z0-9]")  # in a word after its first letter: no name of a person
# No person comes after these.
_NO_PERSON = frozenset(
    {"in", "at", "from", "to", "near", "on", "into", "via", "called", "the"}
)  # after these


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
            elif word.cls == "nr" or (word.cls == "N" and before not in _NO_PERSON and not clause.chinese):
                if not _INSIDE.search(word.text[1:]):
                    yield name, "", True
            elif word.cls == "M" and (words[at:] or words)[0].cls in ("verb", "be", "M"):
                yield name, "", False
