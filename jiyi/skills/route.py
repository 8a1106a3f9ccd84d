"""Which skill a query is for, by shared terms and by meaning, and what that opens and closes.

Words: the terms of the query that a card holds, each weighed by its inverse document frequency
(Spärck Jones 1972) over the cards; their sum over the root of the number of the query's terms.
Meaning: (c - r) / (1 - r) for the cosine c of query and card, and the highest cosine r of the query
with texts that no skill is for ("no_skill" in `wording.toml`), in the language of the card.
How the thresholds were fitted and measured: docs/skills.md.
"""

import math
import re
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from jiyi.embeddings import Embedder, Vectors32
from jiyi.errors import EmbeddingError, InputError
from jiyi.prompts import Language, wording
from jiyi.records.skill import Skill
from jiyi.skills.registry import SkillRegistry
from jiyi.text import analyse, language, query_terms

__all__ = ["LEAST_BOTH", "LEAST_WORDS", "MARGIN", "Routed", "Router", "Swapped", "choose", "route"]

LEAST_WORDS = 0.73
"""The least sum at which a skill is offered, by words alone."""

LEAST_BOTH = 0.16
"""The least sum at which a skill is offered, by words and meaning."""

MARGIN = 0.5
"""How much better a skill must fit than those that are open, in scores: half of what makes it fit at all."""

_WORDS_BESIDE_MEANING = 0.05
_AS_IF = 10  # cards without the term added to the real ones when counting: few cards say little
_NAMED = 10.0  # the score of a skill that the query names
_MOST_AT_ONCE = 32  # cards embedded while somebody waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """A skill and how well it fits a query."""

    skill: Skill
    score: float  # from 1 on it fits; a skill named in the query has 10
    why: str  # the words they share, the likeness in meaning, or that it was named


@dataclass(frozen=True, slots=True, kw_only=True)
class Swapped:
    """Skills that came into the window and went out of it at once, and why."""

    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    why: str = ""  # what it was for: the question with what it shares with the skill, or a task

    def __bool__(self) -> bool:
        """Say whether anything changed."""
        return bool(self.opened or self.closed)

    @property
    def told(self) -> str:
        """The change in a line."""
        parts = (("closed", self.closed), ("opened", self.opened))
        done = "; ".join(f"{what} {', '.join(names)}" for what, names in parts if names)
        return f"{done}: {self.why}"


class Router:
    """Chooses among the skills of a registry; follows it when it is reloaded.

    - Terms and vectors of a card are made once, and again only where the card changes.
    - Up to 32 cards are embedded by the first `route`; where more have no vector yet, words
      decide alone until `prepare` has made them, and ``why`` says so.
    - Safe to share between threads and sessions.
    """

    def __init__(self, registry: SkillRegistry | Sequence[Skill], embedder: Embedder | None = None) -> None:
        self._registry = registry
        self._embedder = embedder
        self._lock = threading.Lock()  # of the cards
        self._embedding = threading.Lock()  # of the vectors
        self._known: _Cards | None = None
        self._rows: dict[str, Vectors32] = {}
        self._beside: dict[str, Vectors32] = {}

    def prepare(self) -> None:
        """Make the vectors of all cards, about 20 to 100 ms each with the bundled embedder.

        Raises:
            EmbeddingError: the embedder failed.
        """
        if self._embedder is not None:
            self._embed(self._embedder, self._cards().texts)

    def route(self, query: str, limit: int = 1) -> list[Routed]:
        """Return the skills that fit, the best first; none where nothing does.

        Where the embedder fails, words decide alone and ``why`` says so; InputError: ``limit`` is below 1.
        """
        if limit < 1:
            raise InputError(f"limit={limit} must be at least 1")
        return [routed for routed in self.scores(query) if routed.score >= 1][:limit]

    def scores(self, query: str) -> list[Routed]:
        """Return every skill with its score, the best first, whether it fits or not; none for no words."""
        cards = self._cards()
        if not cards.skills or not query.strip():
            return []
        terms = query_terms(query)
        length = math.sqrt(max(len(terms), 1))
        note, alike = "", None
        if self._embedder is not None:
            try:
                alike = self._alike(self._embedder, query, cards)
                note = "" if alike else "; vectors are not ready"
            except EmbeddingError as error:
                note = f"; the embedder failed: {error}"
        found = []
        for place, skill in enumerate(cards.skills):
            shared = [term for term in terms if term in cards.terms[place]]
            words = sum(cards.weights[term] for term in shared) / length
            score, why = words / LEAST_WORDS, f"words: {', '.join(shared[:8])}{note}"
            if alike:
                score = (alike[place] + _WORDS_BESIDE_MEANING * words) / LEAST_BOTH
                why = f"meaning {alike[place]:.2f}" + (f", {why}" if shared else "")
            if _names(query, skill.name):
                score, why = max(score, _NAMED), "named in the query"
            found.append(Routed(skill=skill, score=score, why=why))
        return sorted(found, key=lambda routed: (-routed.score, routed.skill.name))

    def _cards(self) -> "_Cards":
        with self._lock:
            version = self._registry.version if isinstance(self._registry, SkillRegistry) else 0
            if self._known is None or self._known.version != version:
                self._known = _Cards(version, self._registry)
            return self._known

    def _embed(self, embedder: Embedder, texts: Sequence[str]) -> dict[str, Vectors32]:
        """Return a vector for each card; those of cards that are gone are dropped."""
        with self._embedding:
            if not self._beside:
                self._beside = {
                    lang: embedder.embed(list(wording("no_skill", lang).values()), "passage")
                    for lang in get_args(Language)
                }
            missing = [text for text in texts if text not in self._rows]
            kept = {text: self._rows[text] for text in texts if text in self._rows}
            if missing:
                kept |= zip(missing, embedder.embed(missing, "passage"), strict=True)
            self._rows = kept
            return kept

    def _alike(self, embedder: Embedder, query: str, cards: "_Cards") -> list[float] | None:
        """Return the likeness in meaning to each card; None where too many have no vector yet."""
        rows = self._rows
        missing = sum(text not in rows for text in cards.texts)
        if missing > _MOST_AT_ONCE:
            return None
        asked = embedder.embed([query], "query")[0]  # first: it is given up sooner than cards
        if missing or not self._beside:
            rows = self._embed(embedder, cards.texts)
        rest = {lang: min(float(np.max(some @ asked)), 0.999) for lang, some in self._beside.items()}
        out = []
        for text, spoken in zip(cards.texts, cards.languages, strict=True):
            floor = max(rest[lang] for lang in spoken)
            out.append((float(rows[text] @ asked) - floor) / (1 - floor))
        return out


def route(
    query: str, skills: Iterable[Skill], limit: int = 1, *, embedder: Embedder | None = None
) -> list[Routed]:
    """Return the skills that fit a query, the best first; none where nothing does.

    For more than one query a `Router` is faster: it keeps what it made of the cards.

    Raises:
        InputError: ``limit`` is below 1.
        EmbeddingError: the embedder failed.
    """
    router = Router(tuple(skills), embedder)
    router.prepare()
    return router.route(query, limit)


def choose(found: Sequence[Routed], opened: Collection[str], routed: Collection[str]) -> Swapped:
    """Return what a question changes.

    The skill that fits best is opened where it fits better by `MARGIN` than every open one, and
    then what routing had opened before goes. What does not fit at all counts as 0, so that a
    question that fits no skill changes nothing.

    Args:
        found: every skill with its score for the question, the best first.
        opened: names of open skills.
        routed: those of them that routing opened.
    """
    if not found or found[0].score < 1:
        return Swapped()
    best = found[0]
    near = {one.skill.name for one in found[1:] if best.score - max(one.score, 0.0) < MARGIN}
    if near.intersection(opened):
        return Swapped()
    name = best.skill.name
    return Swapped(
        opened=() if name in opened else (name,),
        closed=tuple(one for one in opened if one in routed and one != name),
        why=f"the question, {best.why}",
    )


class _Cards:
    """The cards, ready to be compared with queries."""

    def __init__(self, version: int, skills: Iterable[Skill]) -> None:
        self.version = version
        self.skills = tuple(skills)
        self.texts = [_card_text(skill) for skill in self.skills]
        self.terms = [frozenset(analyse(text)) for text in self.texts]
        cards_with = Counter(term for terms in self.terms for term in terms)
        cards = len(self.texts) + _AS_IF
        rarest = math.log(1 + cards)
        self.weights = {term: math.log(1 + cards / n) / rarest for term, n in cards_with.items()}
        self.languages = [_languages(text) for text in self.texts]


def _card_text(skill: Skill) -> str:
    more = " ".join(filter(None, (skill.when_to_use, " ".join(skill.tags))))
    return f"{skill.name}: {skill.description}" + (f" {more}" if more else "")


def _languages(text: str) -> tuple[str, ...]:
    """Return the languages of a card; one written in both is alike to queries of both."""
    halves = re.split(r"[.。;；!！?？\n]", text)
    return tuple(sorted({language(half) for half in halves if len(half.strip()) > 3}))


def _names(query: str, name: str) -> bool:
    """Say whether a query names a skill: "/name", "$name", or a name of several parts as it is."""
    if name not in query:
        return False
    sign = r"[/$]" if "-" not in name else r"[/$]?"
    return re.search(rf"(?<![A-Za-z0-9_/.$-]){sign}{re.escape(name)}(?![A-Za-z0-9_/.-])", query) is not None
