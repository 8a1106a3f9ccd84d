"""Find the skill for a query by shared terms and by meaning, and choose which to open and close.

Words: the sum of the inverse document frequencies (Spärck Jones 1972) of the query terms on a card, divided
by the square root of the number of query terms.
Meaning: (c - r) / (1 - r) for the cosine c of query and card, and the highest cosine r of the query with
texts that need no skill ("no_skill" in `wording.toml`), in the language of the card.
docs/skills.md says how the thresholds were fitted and measured.
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

__all__ = ["MARGIN", "Routed", "Router", "Swapped", "choose_swap"]

MARGIN = 0.5
"""The lead in score that a skill needs over open ones; 1 is the score that fits at all."""

_MIN_WORDS = 0.73  # words of a skill that fits, without an embedder
_MIN_COMBINED = 0.16  # sum of words and meaning of a skill that fits, with an embedder
_WORDS_WEIGHT = 0.05
_SMOOTHING_CARDS = 10  # added to the number of cards in document frequencies, since few cards say little
_NAMED_SCORE = 10.0  # of a skill that the query names
_MAX_EMBEDDED_AT_ONCE = 32  # cards embedded during a request


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """A skill and how well it fits a query."""

    skill: Skill
    score: float  # it fits from 1; a skill named in the query has 10
    why: str  # shared words, similarity in meaning, or that it was named


@dataclass(frozen=True, slots=True, kw_only=True)
class Swapped:
    """Skills opened and closed at once, and why."""

    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    why: str = ""  # a question with what it shares with the skill, or a task

    def __bool__(self) -> bool:
        return bool(self.opened or self.closed)

    @property
    def summary(self) -> str:
        """The change as one line."""
        parts = (("closed", self.closed), ("opened", self.opened))
        changes = "; ".join(f"{verb} {', '.join(names)}" for verb, names in parts if names)
        return f"{changes}: {self.why}"


class Router:
    """Routes queries to the skills of a registry, and follows its reloads.

    - The first `route` embeds up to 32 cards; if more have no vector, only words count until `prepare` has
      embedded them, and ``why`` says so. Vectors are computed again only for cards that change.
    - Safe to share between threads and sessions.
    """

    def __init__(self, registry: SkillRegistry | Sequence[Skill], embedder: Embedder | None = None) -> None:
        self._registry = registry
        self._embedder = embedder
        self._lock = threading.Lock()  # of the cards
        self._embedding = threading.Lock()  # of the vectors
        self._index: _CardIndex | None = None
        self._vectors: dict[str, Vectors32] = {}
        self._no_skill_vectors: dict[str, Vectors32] = {}

    def prepare(self) -> None:
        """Make the vectors of all cards, some 20 to 100 ms each; EmbeddingError: the embedder failed."""
        if self._embedder is not None:
            self._embed(self._embedder, self._cards().texts)

    def route(self, query: str, limit: int = 1) -> list[Routed]:
        """Return the skills that fit, best first; InputError: ``limit`` is below 1.

        If the embedder fails, only words count and ``why`` says so.
        """
        if limit < 1:
            raise InputError(f"limit={limit} must be at least 1")
        return [routed for routed in self.scores(query) if routed.score >= 1][:limit]

    def scores(self, query: str) -> list[Routed]:
        """Return every skill with its score, best first, whether it fits or not; none for an empty query."""
        cards = self._cards()
        if not cards.skills or not query.strip():
            return []
        terms = query_terms(query)
        length = math.sqrt(max(len(terms), 1))
        note, similarities = "", None
        try:
            if self._embedder is not None:
                similarities = self._similarities(self._embedder, query, cards)
                note = "" if similarities else "; vectors are not ready"
        except EmbeddingError as error:
            note = f"; the embedder failed: {error}"
        results = []
        for position, skill in enumerate(cards.skills):
            shared = [term for term in terms if term in cards.terms[position]]
            words = sum(cards.weights[term] for term in shared) / length
            score, why = words / _MIN_WORDS, f"words: {', '.join(shared[:8])}{note}"
            if similarities:
                score = (similarities[position] + _WORDS_WEIGHT * words) / _MIN_COMBINED
                why = f"meaning {similarities[position]:.2f}" + (f", {why}" if shared else "")
            if _is_named(query, skill.name):
                score, why = max(score, _NAMED_SCORE), "named in the query"
            results.append(Routed(skill=skill, score=score, why=why))
        return sorted(results, key=lambda routed: (-routed.score, routed.skill.name))

    def _cards(self) -> "_CardIndex":
        with self._lock:
            version = self._registry.version if isinstance(self._registry, SkillRegistry) else 0
            if self._index is None or self._index.version != version:
                self._index = _CardIndex(version, self._registry)
            return self._index

    def _embed(self, embedder: Embedder, texts: Sequence[str]) -> dict[str, Vectors32]:
        with self._embedding:
            if not self._no_skill_vectors:
                others = {lang: list(wording("no_skill", lang).values()) for lang in get_args(Language)}
                self._no_skill_vectors = {lang: embedder.embed(of, "passage") for lang, of in others.items()}
            missing = [text for text in texts if text not in self._vectors]
            vectors = {text: self._vectors[text] for text in texts if text in self._vectors}
            if missing:
                vectors |= zip(missing, embedder.embed(missing, "passage"), strict=True)
            self._vectors = vectors
            return vectors

    def _similarities(self, embedder: Embedder, query: str, cards: "_CardIndex") -> list[float] | None:
        """Return the similarity to each card, None if too many have no vector."""
        vectors = self._vectors
        missing = sum(text not in vectors for text in cards.texts)
        if missing > _MAX_EMBEDDED_AT_ONCE:
            return None
        query_vector = embedder.embed([query], "query")[0]  # first: its time limit is shorter
        if missing or not self._no_skill_vectors:
            vectors = self._embed(embedder, cards.texts)
        no_skill_vectors = self._no_skill_vectors.items()
        no_skill = {lang: min(float(np.max(rows @ query_vector)), 0.999) for lang, rows in no_skill_vectors}
        floors = [max(no_skill[lang] for lang in languages) for languages in cards.languages]
        cosines = [float(vectors[text] @ query_vector) for text in cards.texts]
        return [(cosine - floor) / (1 - floor) for cosine, floor in zip(cosines, floors, strict=True)]


def choose_swap(matches: Sequence[Routed], opened: Collection[str], routed: Collection[str]) -> Swapped:
    """Return the skills to open and close for a question.

    The best skill is opened if it leads every open one by `MARGIN`, and skills that routing opened before are
    closed. Negative scores count as 0, and a question that fits no skill changes nothing. ``matches`` are of
    every skill, best first; ``opened`` are the names of open ones, ``routed`` those opened by routing.
    """
    if not matches or matches[0].score < 1:
        return Swapped()
    best = matches[0]
    near = {match.skill.name for match in matches[1:] if best.score - max(match.score, 0.0) < MARGIN}
    if near.intersection(opened):
        return Swapped()
    name = best.skill.name
    return Swapped(
        opened=() if name in opened else (name,),
        closed=tuple(match for match in opened if match in routed and match != name),
        why=f"the question, {best.why}",
    )


class _CardIndex:
    def __init__(self, version: int, skills: Iterable[Skill]) -> None:
        self.version = version
        self.skills = tuple(skills)
        self.texts = [
            " ".join(filter(None, (f"{skill.name}: {skill.description}", skill.when_to_use, *skill.tags)))
            for skill in self.skills
        ]
        self.terms = [frozenset(analyse(text)) for text in self.texts]
        cards_with = Counter(term for terms in self.terms for term in terms)
        cards = len(self.texts) + _SMOOTHING_CARDS
        rarest = math.log(1 + cards)
        self.weights = {term: math.log(1 + cards / n) / rarest for term, n in cards_with.items()}
        clauses = [re.split(r"[.。;；!！?？\n]", text) for text in self.texts]
        self.languages = [{language(one) for one in some if len(one.strip()) > 3} for some in clauses]


def _is_named(query: str, name: str) -> bool:
    """Return whether a query names a skill: "/name", "$name", or a bare name with a hyphen."""
    if name not in query:
        return False
    sign = r"[/$]" if "-" not in name else r"[/$]?"
    return re.search(rf"(?<![A-Za-z0-9_/.$-]){sign}{re.escape(name)}(?![A-Za-z0-9_/.-])", query) is not None
