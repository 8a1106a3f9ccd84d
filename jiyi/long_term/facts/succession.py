"""Facts that newer ones have taken the place of, though nothing names the same point: by what both say.

Facts of one slot follow each other as they are merged. Everyday talk rarely names its point twice in
the same words, so each new fact is compared with the facts nearest to it in meaning, as soon as its
vector is there: by the signs that search compares messages by (`jiyi.long_term.recall.pairs`) and by
what is known of facts alone. ``python bench/learn_facts.py`` learns the weights.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.facts.company import FACT_SIGNS, Company, company_of, in_range, is_ready
from jiyi.long_term.facts.known import find_facts, wide
from jiyi.long_term.facts.slots import OWNER
from jiyi.long_term.facts.timeline import start_of
from jiyi.long_term.recall.weights import FACTS, chance, dot
from jiyi.records import Fact, Scope, names_point
from jiyi.storage import Store, VectorIndex

__all__ = ["MAYBE", "SURE", "Succession", "freed"]

SURE = 0.9
"""Probability from which on a fact is superseded."""

MAYBE = 0.1
"""Probability, of one newer fact alone, from which on it is no longer sure that a fact holds."""

_MAYBE_NAMED = 0.2  # the same of a fact that names its point: its slot tells of most of its changes

_MOST_WAITING = 10_000  # facts that wait to be compared, in this process
_PATIENCE = 100  # how often a fact is looked for that is not stored or has no vector yet
_FEW = 50  # facts that are compared in one go


class Succession:
    """Compares new facts with older ones once they have vectors.

    Guarantees: what is sure is superseded, linked both ways, and stays in the history; what is
    likely gets the status "unsure" and names what may have taken its place; nothing is deleted.
    What somebody else says, or an assistant, never ends a person's own word: it makes it unsure
    at most. Comparing again changes nothing.

    Args:
        store: where facts and messages are.
        vectors: theirs.
    """

    def __init__(self, store: Store, vectors: VectorIndex) -> None:
        self._store = store
        self._vectors = vectors
        self._lock = threading.Lock()
        self._settling = threading.Lock()  # whoever flushes waits for what the worker has in hand
        self._waiting: dict[Scope, dict[str, int]] = {}  # ids, and how often they were looked for

    def note(self, scope: Scope, ids: Iterable[str]) -> None:
        """Remember facts that are to be compared."""
        self._wait(wide(scope), dict.fromkeys(ids, 0))

    def settle(self) -> bool:
        """Compare a few of the facts that wait and have vectors by now; return whether more do.

        Raises:
            StorageError: the database cannot take it; what was not compared waits on.
        """
        with self._settling:
            for scope in list(self._waiting):
                if self._settle_few(scope):
                    return bool(self._waiting)
        return False

    def _settle_few(self, scope: Scope) -> bool:
        with self._lock:
            waiting = self._waiting.pop(scope, {})
        few = dict(islice(waiting.items(), _FEW))
        self._wait(scope, {id_: tries for id_, tries in waiting.items() if id_ not in few})
        try:
            return bool(few) and self._settle(scope, few)
        except BaseException:
            self._wait(scope, few)
            raise

    def company(self, fact: Fact) -> Company | None:
        """Return a fact and those it is compared with; None where it has none, or no vector."""
        return company_of(self._store, self._vectors, fact)

    def _wait(self, scope: Scope, ids: dict[str, int]) -> None:
        if not ids:
            return
        with self._lock:
            waiting = self._waiting.setdefault(scope, {})
            waiting.update(ids)
            while len(waiting) > _MOST_WAITING:
                del waiting[next(iter(waiting))]

    def _settle(self, scope: Scope, ids: dict[str, int]) -> bool:
        """Compare facts; return whether there was any that could be."""
        facts = {fact.id: fact for fact in find_facts(self._store, scope, ids=tuple(ids), limit=len(ids))}
        ready = {
            id_
            for id_, fact in facts.items()
            if not in_range(fact) or is_ready(self._store, self._vectors, fact)
        }
        late = {id_: tries + 1 for id_, tries in ids.items() if id_ not in ready}
        self._wait(scope, {id_: tries for id_, tries in late.items() if tries < _PATIENCE})
        for id_ in sorted(ready, key=lambda id_: (start_of(facts[id_]), id_)):
            if in_range(facts[id_]):
                self._store.together(partial(self._compare, scope, id_))
        return bool(ready)

    def _compare(self, scope: Scope, id_: str) -> None:
        """Compare a fact, as it is by now, with those around it; joins the transaction it is called in."""
        found = find_facts(self._store, scope, ids=(id_,), limit=1)
        company = self.company(found[0]) if found else None
        if company is not None:
            likely = chance(dot(FACTS, FACT_SIGNS, company.signs))
            self._store.put(_changed(company, likely))


def freed(store: Store, scope: Scope, changed: Sequence[Fact]) -> list[Fact]:
    """Return, as they hold again, the facts of other slots whose place facts had that are taken back now."""
    here = {fact.id for fact in changed}
    gone = {fact.id: fact for fact in changed if fact.status == "retracted"}
    if not gone:
        return []
    found = find_facts(store, wide(scope), fact_status=("unsure",), limit=_MOST_WAITING)
    if ids := tuple({fact.supersedes for fact in gone.values() if fact.supersedes} - here):
        found += find_facts(store, wide(scope), ids=ids, fact_status=("superseded",), limit=_MOST_WAITING)
    return [
        replace(fact, status="active", superseded_by=None, valid_to=None)
        for fact in found
        if fact.superseded_by in gone and fact.id not in here
    ]


def _changed(company: Company, likely: NDArray[np.float64]) -> list[Fact]:
    """Return what becomes of the facts: only pairs with the one that is new are looked at."""
    first = company.first
    facts = {first.id: first, **{other.id: other for other in company.others}}
    pairs = sorted(zip(likely.tolist(), company.others, strict=True), key=lambda pair: -pair[0])
    for chance_of_it, other in pairs:
        fact, by = (facts[one.id] for one in sorted((first, other), key=start_of))
        least = max(MAYBE, _MAYBE_NAMED) if names_point(fact.predicate) else MAYBE
        if chance_of_it < least or fact.status == "superseded" or fact.pinned:
            continue
        own = _may_end(by, fact)
        if not own and fact.speaker in (None, OWNER):
            continue  # what others say leaves no doubt about the owner's word
        if own and chance_of_it >= SURE:
            facts[fact.id] = replace(fact, status="superseded", superseded_by=by.id, valid_to=start_of(by))
            if by.supersedes is None:
                facts[by.id] = replace(by, supersedes=fact.id)
        elif fact.status == "active":
            facts[fact.id] = replace(fact, status="unsure", superseded_by=by.id)
    before: Sequence[Fact] = (first, *company.others)
    return [facts[fact.id] for fact in before if facts[fact.id] != fact]


def _may_end(by: Fact, fact: Fact) -> bool:
    """Say whether one fact may end another: nobody ends what somebody else said."""
    return by.speaker == fact.speaker and ("(assistant)" in by.predicate) <= ("(assistant)" in fact.predicate)
