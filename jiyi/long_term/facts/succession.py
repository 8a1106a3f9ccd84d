"""Facts that newer ones have replaced although they do not name the same point.

Facts of one slot replace each other when they are merged. Everyday talk rarely names its point twice in
the same words, so each new fact is compared with the facts nearest to it in meaning, as soon as it has
a vector: by the features with which search compares messages (`jiyi.long_term.recall.pairs`) and by
some of facts alone. ``python bench/learn_facts.py`` learns the weights.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from jiyi.clock import to_micros
from jiyi.long_term.facts.lookup import find_facts, wide
from jiyi.long_term.facts.slots import OWNER, value_key
from jiyi.long_term.facts.timeline import is_temporary, start_of
from jiyi.long_term.recall.pairs import PAIR_SIGNS, SPEAKERS, Statements, pair_signs, signs_of
from jiyi.long_term.recall.weights import FACTS, chance, dot
from jiyi.records import Fact, Message, Query, Scope, single_valued
from jiyi.storage import Key, Store, VectorIndex
from jiyi.text.keys import entity_key, predicate_key

__all__ = ["FACT_SIGNS", "MAYBE", "SURE", "Succession", "compared", "freed", "in_range"]

_Floats = NDArray[np.float64]
_OF_FACTS = (
    *("same subject", "same point", "same point of a subject", "one names a point", "both name one"),
    *("same category", "confidence of the earlier", "confidence of the later"),
)
FACT_SIGNS = (*PAIR_SIGNS, *_OF_FACTS)  # the names of the signs of two facts, an earlier and a later one
_NEAR = 100  # nearest messages and facts, whose middle the vectors are seen from
_MOST = 400  # facts that rest on them
_COMPARED = 15  # of them that are compared
_APART = ("plan", "todo", "note", "rule")  # categories that neither end others nor are ended so
SURE = 0.9  # probability from which on a fact is superseded
MAYBE = 0.1  # probability, of one newer fact alone, from which on it is no longer sure that a fact holds
_MAYBE_NAMED = 0.2  # the same of a fact that names its point: its slot tells of most of its changes
_MOST_WAITING = 10_000  # facts that wait to be compared, in this process
_PATIENCE = 20  # how often a fact is looked for that is not stored or has no vector yet
_FEW = 50  # facts that are compared in one go


def in_range(fact: Fact) -> bool:
    """Say whether a fact is compared at all: plans, rules and what holds for a while only are not."""
    return fact.status in ("active", "unsure") and fact.category not in _APART and not is_temporary(fact)


def compared(
    store: Store, vectors: VectorIndex, fact: Fact
) -> tuple[Sequence[Fact], NDArray[np.float64]] | None:
    """Return the facts that one is compared with, and (others, `FACT_SIGNS`) of each with that one.

    None where there are none, or the fact has no vector.
    """
    scope = wide(fact.scope)
    said = _messages(store, scope, [fact])
    own = _vectors(vectors, scope, [_key(fact, said)])[0]
    if not own.any():
        return None
    near = vectors.nearest(Query(scope=scope, kinds=("message", "fact"), limit=_NEAR), own.astype(np.float32))
    keys: list[Key] = [(one.kind, one.id) for one in near]
    others = _resting_on(store, scope, keys, fact)
    if not others:
        return None
    facts = [fact, *others]
    said = _messages(store, scope, facts)
    middle = _middle(_vectors(vectors, scope, [key for key in keys if key[0] == "message"]))
    seen = _centred(_vectors(vectors, scope, [_key(one, said) for one in facts]), middle)
    order = [place for place in np.argsort(-(seen @ seen[0]), kind="stable").tolist() if place]
    order = [0, *(place for place in order if seen[place].any())][: _COMPARED + 1]
    if len(order) < 2:
        return None
    chosen = [facts[place] for place in order]
    before = _before(store, scope, chosen, said)
    turns = _vectors(vectors, scope, [("message", one.id) if one else None for one in before])
    of_place = [said.get(one.id) for one in chosen]
    place = {message.id: number for number, message in enumerate(of_place) if message}
    roles = [message.role if message else "user" for message in of_place]
    asked = [one is not None and one.text.rstrip().endswith(("?", "？")) for one in before]
    group = Statements(
        signs=[signs_of(one.text) for one in chosen],
        vectors=seen[order],
        before=_centred(turns, middle),
        reply_to=np.array([place.get(one.id, -1) if one else -1 for one in before], np.intp),
        after_assistant=np.array([float(one is not None and one.role == "assistant") for one in before]),
        after_question=np.array(asked, np.float64),
        at=np.array([to_micros(start_of(one)) for one in chosen], np.int64),
        session=_numbered([_place(message)[0] for message in of_place]),
        speaker=_numbered([one.speaker for one in chosen]),
        role=np.array([SPEAKERS.index(role) if role in SPEAKERS else 0 for role in roles], np.int64),
        among=len(keys),
    )
    pairs, rows = pair_signs(group), []
    for other in range(1, len(chosen)):
        i, j = (0, other) if group.at[0] < group.at[other] else (other, 0)
        rows.append([*pairs[i, j], *_of_facts(chosen[i], chosen[j])])
    return chosen[1:], np.array(rows, np.float64)


def _resting_on(store: Store, scope: Scope, near: Sequence[Key], fact: Fact) -> list[Fact]:
    found: dict[str, Fact] = {}
    for part, kind in (("sources", "message"), ("ids", "fact")):
        narrowed: dict[str, Any] = {part: tuple(id_ for what, id_ in near if what == kind), "limit": _MOST}
        if narrowed[part]:
            some = find_facts(store, scope, fact_status=("active", "unsure"), **narrowed)
            found.update((one.id, one) for one in some)
    return [one for one in found.values() if one.id != fact.id and _comparable(fact, one)]


def _comparable(one: Fact, other: Fact) -> bool:
    """Say whether one of two facts may take the other's place: what is said at once stands side by side."""
    return (
        in_range(other)
        and start_of(one) != start_of(other)
        and one.created_at != other.created_at
        and value_key(one.object) != value_key(other.object)
    )


def _messages(store: Store, scope: Scope, facts: Sequence[Fact]) -> dict[str, Message]:
    ids = tuple(dict.fromkeys(id_ for fact in facts for id_ in fact.sources))[:10_000]
    if not ids:
        return {}
    query = Query(scope=scope, kinds=("message",), ids=ids, limit=len(ids))
    found = {one.id: one for one in cast("list[Message]", store.find(query))}
    out: dict[str, Message] = {}
    for fact in facts:
        of_fact = [found[id_] for id_ in fact.sources if id_ in found]
        at = [one for one in of_fact if one.created_at == fact.created_at]
        if of_fact:
            out[fact.id] = (at or of_fact)[-1]
    return out


def _key(fact: Fact, said: Mapping[str, Message]) -> Key:
    message = said.get(fact.id)
    return ("message", message.id) if message else ("fact", fact.id)


def _vectors(vectors: VectorIndex, scope: Scope, keys: Sequence[Key | None]) -> _Floats:
    """Return (keys, dims) the vectors of records, of their first part; zeros where there is none."""
    asked = list(dict.fromkeys(key for key in keys if key))
    parts = vectors.read(Scope(user_id=scope.user_id), asked)
    dims = parts.vectors.shape[1] if parts.vectors.ndim == 2 else 0
    of_key = {
        asked[row]: parts.vectors[place] for place, row in reversed(list(enumerate(parts.rows.tolist())))
    }
    out = np.zeros((len(keys), dims))
    for place, key in enumerate(keys):
        if key in of_key:
            out[place] = of_key[key]
    return out


def _middle(vectors: _Floats) -> _Floats:
    there = vectors[np.flatnonzero(vectors.any(axis=1))]
    return there.mean(axis=0) if len(there) > 1 else np.zeros(vectors.shape[1])


def _centred(vectors: _Floats, middle: _Floats) -> _Floats:
    there = np.asarray(vectors.any(axis=1))
    if not there.any():
        return np.zeros((len(vectors), len(middle)))
    out = (vectors - middle) * there[:, None]
    return np.asarray(out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9))


def _before(
    store: Store, scope: Scope, facts: Sequence[Fact], said: Mapping[str, Message]
) -> list[Message | None]:
    """Return what was said just before each fact, in its session."""
    places = [_place(said.get(fact.id)) for fact in facts]
    stretches = tuple((session, seq - 1, seq - 1) for session, seq in dict.fromkeys(places) if seq > 0)
    if not stretches:
        return [None] * len(facts)
    query = Query(scope=scope, kinds=("message",), stretches=stretches, limit=len(stretches))
    found = {_place(one): one for one in cast("list[Message]", store.find(query))}
    return [found.get((session, seq - 1)) for session, seq in places]


def _place(message: Message | None) -> tuple[str, int]:
    """Return the session of a message and its place there, -1 for none."""
    if message is None or message.scope is None or message.seq is None:
        return "", -1
    return message.scope.session_id or "", message.seq


def _of_facts(earlier: Fact, later: Fact) -> list[float]:
    subject = entity_key(earlier.subject) == entity_key(later.subject)
    point = predicate_key(earlier.predicate) == predicate_key(later.predicate)
    named = single_valued(earlier.predicate), single_valued(later.predicate)
    signs = [subject, point, subject and point, any(named), all(named), earlier.category == later.category]
    return [*map(float, signs), earlier.confidence, later.confidence]


def _numbered(names: Sequence[str | None]) -> NDArray[np.int64]:
    """Return a number for each name, the same for the same; -1 for none."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] if name else -1 for name in names], np.int64)


class Succession:
    """Compares new facts with older ones once they have vectors.

    Guarantees: what is surely replaced is superseded, linked both ways, and stays in the history; what
    is likely replaced gets the status "unsure" and names what may have replaced it; nothing is deleted.
    What somebody else or an assistant says never ends what a person said of themselves: it makes it
    unsure at most. Comparing again changes nothing.
    """

    def __init__(self, store: Store, vectors: VectorIndex) -> None:
        self._store = store
        self._vectors = vectors
        self._lock = threading.Lock()
        self._settling = threading.Lock()  # whoever flushes waits for what the worker has in hand
        self._waiting: dict[Scope, dict[str, int]] = {}  # ids, and how often they were looked for
        self._late: dict[Scope, dict[str, int]] = {}  # of them, what had no vector: looked for next time

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
                    return True
            late, self._late = self._late, {}
            for scope, ids in late.items():
                self._wait(scope, ids)
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
        ranged = [fact for fact in facts.values() if in_range(fact)]
        said = _messages(self._store, scope, ranged)
        vectors = _vectors(self._vectors, scope, [_key(fact, said) for fact in ranged]) if ranged else ()
        lacking = {fact.id for fact, vector in zip(ranged, vectors, strict=True) if not vector.any()}
        ready = facts.keys() - lacking
        late = {id_: tries + 1 for id_, tries in ids.items() if id_ not in ready and tries + 1 < _PATIENCE}
        self._late.setdefault(scope, {}).update(late)
        for id_ in sorted(ready, key=lambda id_: (start_of(facts[id_]), id_)):
            if in_range(facts[id_]):
                self._compare(scope, id_)
        return bool(ready)

    def _compare(self, scope: Scope, id_: str) -> None:
        """Compare a fact, as it is by now, with those around it.

        Nothing is written to meanwhile: inside a transaction the index would be read from its start.
        """
        found = find_facts(self._store, scope, ids=(id_,), limit=1)
        group = compared(self._store, self._vectors, found[0]) if found else None
        if group is not None:
            others, signs = group
            likely = chance(dot(FACTS, FACT_SIGNS, signs))
            self._store.together(partial(self._judge, scope, found[0], others, likely))

    def _judge(self, scope: Scope, fact: Fact, others: Sequence[Fact], likely: NDArray[np.float64]) -> None:
        """Write what becomes of facts that were compared, but for what changed since."""
        ids = (fact.id, *(other.id for other in others))
        now = {one.id: one for one in find_facts(self._store, wide(scope), ids=ids, limit=len(ids))}
        same = [place for place, other in enumerate(others) if now.get(other.id) == other]
        if now.get(fact.id) == fact and same:
            self._store.put(_changed(fact, [others[place] for place in same], likely[same]))


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


def _changed(first: Fact, others: Sequence[Fact], likely: NDArray[np.float64]) -> list[Fact]:
    """Return what becomes of the facts: only pairs with the one that is new are looked at."""
    facts = {first.id: first, **{other.id: other for other in others}}
    pairs = sorted(zip(likely.tolist(), others, strict=True), key=lambda pair: -pair[0])
    for chance_of_it, other in pairs:
        fact, by = (facts[one.id] for one in sorted((first, other), key=start_of))
        least = max(MAYBE, _MAYBE_NAMED) if single_valued(fact.predicate) else MAYBE
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
    return [facts[fact.id] for fact in (first, *others) if facts[fact.id] != fact]


def _may_end(by: Fact, fact: Fact) -> bool:
    """Say whether one fact may end another: nobody ends what somebody else said."""
    return by.speaker == fact.speaker and ("(assistant)" in by.predicate) <= ("(assistant)" in fact.predicate)
