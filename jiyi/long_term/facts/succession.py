"""Facts that newer ones have replaced although they do not name the same point.

Facts of one slot replace each other when they are merged. Everyday talk rarely names its point twice in
the same words, so each new fact is compared with the facts nearest to it in meaning, as soon as it has
a vector: by the features with which search compares messages (`jiyi.long_term.recall.pairs`) and some of
facts alone. ``python bench/learn_facts.py`` learns the weights.
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
from jiyi.long_term.facts.lookup import find_facts, user_scope
from jiyi.long_term.facts.slots import OWNER, Names, slot_of, value_key
from jiyi.long_term.facts.timeline import is_temporary, start_of
from jiyi.long_term.finding import center, find_by_ids, first_vectors
from jiyi.long_term.recall.pairs import PAIR_FEATURES, ROLE_NAMES, Statements, extract_features, pair_features
from jiyi.long_term.recall.weights import FACTS, sigmoid, weighted_sum
from jiyi.records import Fact, Message, Query, Scope, single_valued
from jiyi.storage import Key, Snapshot, Store, VectorIndex
from jiyi.text.keys import entity_key, predicate_key

__all__ = ["FACT_FEATURES", "Succession", "compare_fact", "facts_to_restore", "is_comparable"]

_Floats = NDArray[np.float64]
_VALUE_FEATURES = (
    *("same subject", "same point", "same point of a subject", "one names a point", "both name one"),
    *("same category", "confidence of the earlier", "confidence of the later"),
)
FACT_FEATURES = (*PAIR_FEATURES, *_VALUE_FEATURES)  # names of the features of an earlier and a later fact
_NEAREST = 100  # messages and facts; their mean is subtracted from the vectors
_MAX_NEAR = 400  # facts with these sources
_MAX_COMPARED = 15  # of these
_EXEMPT = ("plan", "todo", "note", "rule")  # that neither end other facts this way nor are ended
_SURE = 0.9  # probability from which a fact is superseded
_MAYBE = 0.1  # probability for one newer fact from which a fact is unsure
_MAYBE_NAMED = 0.2  # the same for a fact with a named point: its slot shows most changes
_MAX_WAITING = 10_000  # facts queued in this process
_MAX_TRIES = 20  # for a fact that is not stored or has no vector yet
_BATCH = 50  # facts compared at once


def is_comparable(fact: Fact) -> bool:
    """Return whether a fact is compared: plans, to-dos, notes, rules and temporary facts are not."""
    return fact.status in ("active", "unsure") and fact.category not in _EXEMPT and not is_temporary(fact)


def compare_fact(
    store: Store, vectors: VectorIndex, fact: Fact, snapshot: Snapshot
) -> tuple[Sequence[Fact], NDArray[np.float64]] | None:
    """Return the facts that one is compared with, and their features (others, `FACT_FEATURES`).

    None if there are none or the fact has no vector. Vectors are those of a snapshot of the user.
    """
    scope = user_scope(fact.scope)

    def read(keys: Sequence[Key | None]) -> _Floats:
        return first_vectors(vectors, snapshot.user_id, keys, snapshot).astype(np.float64)

    source = _sources_of(store, scope, [fact])
    own = read([_vector_key(fact, source)])[0]
    if not own.any():
        return None
    query = Query(scope=scope, kinds=("message", "fact"), limit=_NEAREST)
    near = vectors.nearest(query, own.astype(np.float32), snapshot=snapshot)
    keys: list[Key] = [(match.kind, match.id) for match in near]
    others = _candidate_facts(store, scope, keys, fact)
    if not others:
        return None
    facts = [fact, *others]
    source = _sources_of(store, scope, facts)
    said = read([key for key in keys if key[0] == "message"])
    said = said[said.any(axis=1)]
    middle = said.mean(axis=0) if len(said) > 1 else np.zeros(said.shape[1])
    centred = center(read([_vector_key(f, source) for f in facts]), middle)
    order = [place for place in np.argsort(-(centred @ centred[0]), kind="stable").tolist() if place]
    order = [0, *(place for place in order if centred[place].any())][: _MAX_COMPARED + 1]
    if len(order) < 2:
        return None
    chosen = [facts[place] for place in order]
    before = _preceding_messages(store, scope, chosen, source)
    turns = read([("message", m.id) if m else None for m in before])
    messages = [source.get(f.id) for f in chosen]
    place = {message.id: number for number, message in enumerate(messages) if message}
    roles = [message.role if message else "user" for message in messages]
    asked = [m is not None and m.text.rstrip().endswith(("?", "？")) for m in before]
    group = Statements(
        features=[extract_features(f.text) for f in chosen],
        vectors=centred[order],
        before=center(turns, middle),
        reply_to=np.array([place.get(m.id, -1) if m else -1 for m in before], np.intp),
        after_assistant=np.array([float(m is not None and m.role == "assistant") for m in before]),
        after_question=np.array(asked, np.float64),
        at=np.array([to_micros(start_of(f)) for f in chosen], np.int64),
        session=_number_names([_position(message)[0] for message in messages]),
        speaker=_number_names([f.speaker for f in chosen]),
        role=np.array([ROLE_NAMES.index(role) if role in ROLE_NAMES else 0 for role in roles], np.int64),
        vector_count=len(keys),
    )
    pairs, rows = pair_features(group), []
    for other in range(1, len(chosen)):
        i, j = (0, other) if group.at[0] < group.at[other] else (other, 0)
        rows.append([*pairs[i, j], *_fact_features(chosen[i], chosen[j])])
    return chosen[1:], np.array(rows, np.float64)


def _candidate_facts(store: Store, scope: Scope, near: Sequence[Key], fact: Fact) -> list[Fact]:
    found: dict[str, Fact] = {}
    for part, kind in (("sources", "message"), ("ids", "fact")):
        if ids := tuple(id_ for what, id_ in near if what == kind):
            narrowed: dict[str, Any] = {part: ids, "limit": _MAX_NEAR}
            some = find_facts(store, scope, fact_status=("active", "unsure"), **narrowed)
            found.update((f.id, f) for f in some)
    return [f for f in found.values() if f.id != fact.id and _may_replace(fact, f)]


def _may_replace(fact: Fact, other: Fact) -> bool:
    """Return whether one of two facts may replace the other: not if said at once, or if both may hold."""
    one, two = slot_of(fact, Names()), slot_of(other, Names())
    beside = single_valued(fact.predicate) and one[:2] == two[:2] and one[2] != two[2]  # a second medicine
    apart = start_of(fact) != start_of(other) and fact.created_at != other.created_at
    return is_comparable(other) and apart and not beside and value_key(fact.object) != value_key(other.object)


def _sources_of(store: Store, scope: Scope, facts: Sequence[Fact]) -> dict[str, Message]:
    ids = [id_ for fact in facts for id_ in fact.sources]
    found: dict[str, Message] = {m.id: m for m in find_by_ids(store, scope, "message", ids)}
    out: dict[str, Message] = {}
    for fact in facts:
        of_fact = [found[id_] for id_ in fact.sources if id_ in found]
        at = [m for m in of_fact if m.created_at == fact.created_at]
        if of_fact:
            out[fact.id] = (at or of_fact)[-1]
    return out


def _vector_key(fact: Fact, source: Mapping[str, Message]) -> Key:
    message = source.get(fact.id)
    return ("message", message.id) if message else ("fact", fact.id)


def _preceding_messages(
    store: Store, scope: Scope, facts: Sequence[Fact], source: Mapping[str, Message]
) -> list[Message | None]:
    """Return the message just before each fact in its session."""
    places = [_position(source.get(fact.id)) for fact in facts]
    stretches = tuple((session, seq - 1, seq - 1) for session, seq in dict.fromkeys(places) if seq > 0)
    if not stretches:
        return [None] * len(facts)
    query = Query(scope=scope, kinds=("message",), stretches=stretches, limit=len(stretches))
    found = {_position(m): m for m in cast("list[Message]", store.find(query))}
    return [found.get((session, seq - 1)) for session, seq in places]


def _position(message: Message | None) -> tuple[str, int]:
    """Return the session of a message and its position there, -1 for none."""
    if message is None or message.scope is None or message.seq is None:
        return "", -1
    return message.scope.session_id or "", message.seq


def _fact_features(earlier: Fact, later: Fact) -> list[float]:
    subject = entity_key(earlier.subject) == entity_key(later.subject)
    point = predicate_key(earlier.predicate) == predicate_key(later.predicate)
    named = single_valued(earlier.predicate), single_valued(later.predicate)
    same = [subject, point, subject and point, any(named), all(named), earlier.category == later.category]
    return [*map(float, same), earlier.confidence, later.confidence]


def _number_names(names: Sequence[str | None]) -> NDArray[np.int64]:
    """Number names, equal names alike; -1 for none."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] if name else -1 for name in names], np.int64)


class Succession:
    """Compares new facts with older ones once they have vectors.

    Guarantees: a fact that is surely replaced is superseded, linked both ways, and stays in the history;
    one that is likely replaced becomes "unsure" and names its possible successor; nothing is deleted.
    What others or an assistant say never ends what a person said of themselves: at most it makes it
    unsure. Comparing again changes nothing.
    """

    def __init__(self, store: Store, vectors: VectorIndex) -> None:
        self._store = store
        self._vectors = vectors
        self._lock = threading.Lock()
        self._settling = threading.Lock()  # a flush waits for the batch of the worker
        self._waiting: dict[Scope, dict[str, int]] = {}  # ids and their number of tries
        self._late: dict[Scope, dict[str, int]] = {}  # those without a vector, for the next round

    def note(self, scope: Scope, ids: Iterable[str]) -> None:
        """Queue facts to be compared."""
        self._wait(user_scope(scope), dict.fromkeys(ids, 0))

    def settle(self) -> bool:
        """Compare a batch of the waiting facts that have vectors; return whether more do.

        Raises:
            StorageError: the database failed; what was not compared stays queued.
        """
        with self._settling:
            for scope in list(self._waiting):
                with self._lock:
                    waiting = self._waiting.pop(scope, {})
                few = dict(islice(waiting.items(), _BATCH))
                self._wait(scope, {id_: tries for id_, tries in waiting.items() if id_ not in few})
                try:
                    if few and self._settle(scope, few):
                        return True
                except BaseException:
                    self._wait(scope, few)
                    raise
            late, self._late = self._late, {}
            for scope, ids in late.items():
                self._wait(scope, ids)
        return False

    def _wait(self, scope: Scope, ids: dict[str, int]) -> None:
        if not ids:
            return
        with self._lock:
            waiting = self._waiting.setdefault(scope, {})
            waiting.update(ids)
            while len(waiting) > _MAX_WAITING:
                del waiting[next(iter(waiting))]

    def _settle(self, scope: Scope, ids: dict[str, int]) -> bool:
        """Compare facts; return whether any of them could be."""
        facts: dict[str, Fact] = {fact.id: fact for fact in find_by_ids(self._store, scope, "fact", ids)}
        compared = [fact for fact in facts.values() if is_comparable(fact)]
        source = _sources_of(self._store, scope, compared)
        keys = [_vector_key(fact, source) for fact in compared]
        snapshot = self._store.snapshot(scope.user_id)
        vectors = first_vectors(self._vectors, scope.user_id, keys, snapshot) if keys else ()
        lacking = {fact.id for fact, vector in zip(compared, vectors, strict=True) if not vector.any()}
        done = facts.keys() - lacking
        late = {id_: tries + 1 for id_, tries in ids.items() if id_ not in done and tries + 1 < _MAX_TRIES}
        self._late.setdefault(scope, {}).update(late)
        ready = (fact for fact in compared if fact.id in done)
        for fact in sorted(ready, key=lambda fact: (start_of(fact), fact.id)):
            self._compare(scope, fact.id, snapshot)
        return bool(done)

    def _compare(self, scope: Scope, id_: str, snapshot: Snapshot) -> None:
        """Compare the current state of a fact with the facts near it.

        This runs outside a transaction: inside one the index would be read from its start.
        """
        for fact in find_by_ids(self._store, scope, "fact", [id_]):
            if group := compare_fact(self._store, self._vectors, fact, snapshot):
                others, features = group
                likely = sigmoid(weighted_sum(FACTS, FACT_FEATURES, features))
                self._store.together(partial(self._write, scope, fact, others, likely))

    def _write(self, scope: Scope, fact: Fact, others: Sequence[Fact], likely: NDArray[np.float64]) -> None:
        """Write the result of a comparison, except for facts that have changed since."""
        ids = [fact.id, *(other.id for other in others)]
        now = {f.id: f for f in find_by_ids(self._store, user_scope(scope), "fact", ids)}
        same = [place for place, other in enumerate(others) if now.get(other.id) == other]
        if now.get(fact.id) == fact and same:
            self._store.put(_updated_facts(fact, [others[place] for place in same], likely[same]))


def facts_to_restore(store: Store, scope: Scope, changed: Sequence[Fact]) -> list[Fact]:
    """Return the facts of other slots that hold again because the facts that replaced them are retracted."""
    here = {fact.id for fact in changed}
    gone = {fact.id: fact for fact in changed if fact.status == "retracted"}
    if not gone:
        return []
    found = find_facts(store, user_scope(scope), fact_status=("unsure",), limit=_MAX_WAITING)
    if ids := tuple({fact.supersedes for fact in gone.values() if fact.supersedes} - here):
        narrowed: dict[str, Any] = {"fact_status": ("superseded",), "limit": _MAX_WAITING}
        found += find_facts(store, user_scope(scope), ids=ids, **narrowed)
    return [
        replace(fact, status="active", superseded_by=None, valid_to=None)
        for fact in found
        if fact.superseded_by in gone and fact.id not in here
    ]


def _updated_facts(first: Fact, others: Sequence[Fact], likely: NDArray[np.float64]) -> list[Fact]:
    """Return the facts that change; only pairs with the first one are considered."""
    facts = {first.id: first, **{other.id: other for other in others}}
    pairs = sorted(zip(likely.tolist(), others, strict=True), key=lambda pair: -pair[0])
    for probability, other in pairs:
        fact, by = (facts[f.id] for f in sorted((first, other), key=start_of))
        least = max(_MAYBE, _MAYBE_NAMED) if single_valued(fact.predicate) else _MAYBE
        if probability < least or fact.status == "superseded" or fact.pinned:
            continue
        own = _may_end(by, fact)
        if not own and fact.speaker in (None, OWNER):
            continue  # what others say leaves no doubt about the owner's word
        if own and probability >= _SURE:
            facts[fact.id] = replace(fact, status="superseded", superseded_by=by.id, valid_to=start_of(by))
            if by.supersedes is None:
                facts[by.id] = replace(by, supersedes=fact.id)
        elif fact.status == "active":
            facts[fact.id] = replace(fact, status="unsure", superseded_by=by.id)
    return [facts[fact.id] for fact in (first, *others) if facts[fact.id] != fact]


def _may_end(by: Fact, fact: Fact) -> bool:
    """Return whether one fact may end another: both have the same speaker."""
    return by.speaker == fact.speaker and ("(assistant)" in by.predicate) <= ("(assistant)" in fact.predicate)
