"""Which records a text asks for, and which words only some of them say. No I/O."""

import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from jiyi.errors import BadQuery
from jiyi.records import Record, Summary, Task
from jiyi.text import analyse, query_terms

__all__ = ["Words", "only_in", "says", "text_of"]

_HAN = re.compile(r"[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]+")


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text, each of which a record must hold to be meant.

    Chinese is looked for as it is written, everything else as search does: by stems, in
    any case and width. Question and function words do not count.

    Raises:
        BadQuery: there is no word in the text.
    """

    han: frozenset[str]  # what must stand in the text
    others: frozenset[str]  # search terms

    @classmethod
    def of(cls, text: str) -> "Words":
        """Return the words of a text."""
        terms = query_terms(text)
        han = frozenset(term for term in terms if _HAN.fullmatch(term))
        if not terms:
            raise BadQuery(f"{text!r} holds no word to look for; give words, ids, filters or a whole scope")
        return cls(han, frozenset(terms) - han)

    def is_indexed(self, term: str) -> bool:
        """Say whether every record that holds a term is found by it in the text index."""
        return term in self.others or (term in self.han and len(term) == 2)

    def are_in(self, text: str) -> bool:
        """Say whether a text holds all of them."""
        if self.han:
            written = _normal(text)
            if not all(term in written for term in self.han):
                return False
        return not self.others or self.others <= set(analyse(text))


def text_of(record: Record) -> str:
    """Return all words of a record; those of a task with its notes, steps and their arguments."""
    if isinstance(record, Summary):
        return record.text
    if not isinstance(record, Task):
        return str(getattr(record, "search_text", ""))
    parts = [record.request, record.target, record.summary, *record.tags, _written(record.context)]
    for step in record.steps:
        parts += [step.description, step.tool_name, step.result, _written(step.args)]
    return "\n".join(filter(None, parts))


def says(texts: Iterable[str]) -> set[str]:
    """Return the search terms of texts."""
    return {term for text in texts for term in analyse(text)}


def only_in(lost: Iterable[str], left: Iterable[str]) -> set[str]:
    """Return the search terms that the lost texts say and none of the others."""
    return says(lost) - says(left)


def _normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str) if value else ""
