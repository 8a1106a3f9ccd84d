"""The facts that a new one is compared with, and the signs of each pair: those nearest in meaning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from jiyi.clock import to_micros
from jiyi.long_term.facts.known import find_facts, wide
from jiyi.long_term.facts.slots import value_key
from jiyi.long_term.facts.timeline import is_temporary, start_of
from jiyi.long_term.recall.pairs import PAIR_SIGNS, SPEAKERS, Statements, pair_signs
from jiyi.long_term.recall.signs import signs_of
from jiyi.records import Fact, FactStatus, Message, Query, Scope, names_point
from jiyi.storage import Key, Store, VectorIndex
from jiyi.text.keys import entity_key, predicate_key

__all__ = ["FACT_SIGNS", "Company", "company_of", "in_range", "is_ready"]

_Floats = NDArray[np.float64]
_OF_FACTS = (
    *("same subject", "same point", "same point of a subject", "one names a point", "both name one"),
    *("same category", "confidence of the earlier", "confidence of the later"),
)
FACT_SIGNS = (*PAIR_SIGNS, *_OF_FACTS)
"""The names of the signs of two facts, an earlier and a later one."""

_NEAR = 100  # nearest messages and facts, whose middle the vectors are seen from
_MOST = 400  # facts that rest on them
_COMPARED = 15  # of them that are compared
_APART = ("plan", "todo", "note", "rule")  # categories that neither end others nor are ended so


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Company:
    """A fact and the facts it is compared with."""

    first: Fact
    others: tuple[Fact, ...]
    signs: _Floats  # (others, `FACT_SIGNS`): of each with the first one, whichever is earlier


def in_range(fact: Fact) -> bool:
    """Say whether a fact is compared at all: plans, rules and what holds for a while only are not."""
    return fact.status in ("active", "unsure") and fact.category not in _APART and not is_temporary(fact)


def is_ready(store: Store, vectors: VectorIndex, fact: Fact) -> bool:
    """Say whether a fact, or the message it was said in, has a vector."""
    key = _key(fact, _messages(store, wide(fact.scope), [fact]))
    return len(vectors.read(Scope(user_id=fact.scope.user_id), [key]).rows) > 0


def company_of(store: Store, vectors: VectorIndex, fact: Fact) -> Company | None:
    """Return a fact and those it is compared with; None where it has none, or no vector."""
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
    group = _statements(
        chosen, said, before, vectors=seen[order], vectors_before=_centred(turns, middle), among=len(keys)
    )
    return Company(first=fact, others=tuple(chosen[1:]), signs=_with_first(chosen, group))


def _resting_on(store: Store, scope: Scope, near: Sequence[Key], fact: Fact) -> list[Fact]:
    """Return the facts near to one that it may end or be ended by."""
    messages, facts = (tuple(id_ for what, id_ in near if what == kind) for kind in ("message", "fact"))
    standing: tuple[FactStatus, ...] = ("active", "unsure")
    found: list[Fact] = []
    if messages:
        found += find_facts(store, scope, sources=messages, fact_status=standing, limit=_MOST)
    if facts:
        found += find_facts(store, scope, ids=facts, fact_status=standing, limit=_MOST)
    distinct = {one.id: one for one in found}
    return [one for one in distinct.values() if one.id != fact.id and _comparable(fact, one)]


def _comparable(one: Fact, other: Fact) -> bool:
    """Say whether one of two facts may take the other's place: what is said at once stands side by side."""
    return (
        in_range(other)
        and start_of(one) != start_of(other)
        and one.created_at != other.created_at
        and value_key(one.object) != value_key(other.object)
    )


def _messages(store: Store, scope: Scope, facts: Sequence[Fact]) -> dict[str, Message]:
    """Return the message that each fact was said in, by the fact's id."""
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
    """Return vectors less the middle, of length 1; zeros stay zeros."""
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


def _statements(
    facts: Sequence[Fact],
    said: Mapping[str, Message],
    before: Sequence[Message | None],
    *,
    vectors: _Floats,
    vectors_before: _Floats,
    among: int,
) -> Statements:
    place = {said[fact.id].id: number for number, fact in enumerate(facts) if fact.id in said}
    roles = [said[fact.id].role if fact.id in said else "user" for fact in facts]
    asked = [one is not None and one.text.rstrip().endswith(("?", "？")) for one in before]
    return Statements(
        signs=[signs_of(fact.text) for fact in facts],
        vectors=vectors,
        before=vectors_before,
        reply_to=np.array([place.get(one.id, -1) if one else -1 for one in before], np.intp),
        after_assistant=np.array([float(one is not None and one.role == "assistant") for one in before]),
        after_question=np.array(asked, np.float64),
        at=np.array([to_micros(start_of(fact)) for fact in facts], np.int64),
        session=_numbered([_place(said.get(fact.id))[0] for fact in facts]),
        speaker=_numbered([fact.speaker for fact in facts]),
        role=np.array([SPEAKERS.index(role) if role in SPEAKERS else 0 for role in roles], np.int64),
        among=among,
    )


def _with_first(facts: Sequence[Fact], group: Statements) -> _Floats:
    """Return the signs of the first fact and each other, the earlier of the two before the later."""
    pairs, rows = pair_signs(group), []
    for other in range(1, len(facts)):
        i, j = (0, other) if group.at[0] < group.at[other] else (other, 0)
        rows.append([*pairs[i, j], *_of_facts(facts[i], facts[j])])
    return np.array(rows, np.float64)


def _of_facts(earlier: Fact, later: Fact) -> list[float]:
    subject = entity_key(earlier.subject) == entity_key(later.subject)
    point = predicate_key(earlier.predicate) == predicate_key(later.predicate)
    named = names_point(earlier.predicate), names_point(later.predicate)
    signs = [subject, point, subject and point, any(named), all(named), earlier.category == later.category]
    return [*map(float, signs), earlier.confidence, later.confidence]


def _numbered(names: Sequence[str | None]) -> NDArray[np.int64]:
    """Return a number for each name, the same for the same; -1 for none."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] if name else -1 for name in names], np.int64)
