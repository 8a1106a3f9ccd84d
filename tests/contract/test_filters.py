"""Filters mean the same on every backend and in memory: what a plain reading of their dict says."""

import operator
from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import START, by_words, episode, fact, item, knowledge, message, task
from taken_out import find

from jiyi.records import SEARCHABLE, Query, Scope, matches, read_filter

ODD = """ "q" $.a\\u0000 渠道 🎉 'x' % :n {0} """
TEXTS = st.sampled_from(
    [
        "a", "b", "B", "aB", "É", "é", "e\u0301", "%", "_", "渠", "🎉", "\uffff", "10", "9", "1", "true",
        "", ODD,
    ]
)  # fmt: skip
NUMBERS = st.sampled_from([0, -0.0, 1, 1.0, -1, 2.5, 9, 10, 0.1, 0.30000000000000004, 2**53, 2**62, 1e-300])
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
KEYS = st.sampled_from(["k", "a.b", ODD, "渠"])
INNER = st.dictionaries(st.sampled_from(["k", "b", "0", ODD.partition(".")[2]]), SCALARS, max_size=2)
VALUES = st.dictionaries(
    st.sampled_from(["k", "a", "a.b", ODD, ODD.partition(".")[0]]),
    SCALARS | INNER | st.just([{"k": 1}, 1]) | st.builds(lambda one: {"k": one}, INNER),
    max_size=3,
)
WAYS = st.sampled_from(["k", "k.k", "k.k.b", "a.b", "k.0", ODD])
LABELS = st.dictionaries(KEYS, SCALARS | st.just(["a", 1]) | st.just({"k": "a"}), max_size=3)
MOMENTS = st.integers(0, 2).map(lambda days: START + timedelta(days=days))
SHARES = st.sampled_from([0.5, 0.7, 1.0])
FACT_STATUS = st.sampled_from(["active", "superseded"])
EVERY = (*SEARCHABLE, "task")
ALIKE = [
    (st.sampled_from(EVERY), "kind"),
    (st.sampled_from(["user", "assistant"]), "role"),
    (st.booleans(), "pinned consolidated"),
    (st.sampled_from(["s", "t"]), "session_id"),
    (st.sampled_from(["bot", "b"]), "agent_id"),
    (SHARES, "importance confidence"),
    (st.integers(0, 2), "access_count"),
    (TEXTS, "name subject speaker topic text target"),
    (st.sampled_from(["attribute", "note"]), "category"),
    (st.sampled_from(["active", "superseded", "completed"]), "status"),
    (MOMENTS, "created_at valid_to"),
    (st.sampled_from(["success", "failed"]), "outcome"),
]
FIELDS = {name: values for values, names in ALIKE for name in names.split()}
ORDERED = {"created_at", "valid_to", "importance", "confidence", "access_count", "subject", "speaker"}
ORDERED |= {"name", "topic"}
HOLDING = ("contains", "icontains")
TEXTUAL = {"name", "subject", "speaker", "topic", "text", "category", "role"}
COMPARED = {"gt": "gt", "gte": "ge", "lt": "lt", "lte": "le"}


@st.composite
def conditions(draw):
    name = draw(st.sampled_from([*FIELDS, "metadata.k", "metadata", "value.", "value"]))
    metadata = name.startswith(("metadata", "value"))
    values = SCALARS if metadata else FIELDS[name]
    kinds = ["plain", "eq", "ne", "in", "nin", "exists"]
    kinds += list(COMPARED) * (metadata or name in ORDERED)
    kinds += list(HOLDING) * (metadata or name in TEXTUAL)
    kind = draw(st.sampled_from(kinds))
    if kind in HOLDING:
        asked = {kind: draw(TEXTS)}
    elif kind in COMPARED:
        asked = {kind: draw(NUMBERS | TEXTS if metadata else values)}
    elif kind in ("in", "nin"):
        asked = {kind: draw(st.lists(values | st.none(), max_size=3))}
    elif kind == "exists":
        asked = {kind: draw(st.booleans())}
    else:
        asked = draw(values) if kind == "plain" else {kind: draw(values)}
    if name in ("metadata", "value"):
        return {name: {draw(KEYS if name == "metadata" else WAYS): asked}}
    return {name + draw(WAYS) if name == "value." else name: asked}


def combined(inner):
    words = st.sampled_from(["and", "or", "not", "AND", "OR", "NOT"])
    grouped = st.builds(lambda word, parts: {word: parts}, words, st.lists(inner, min_size=1, max_size=3))
    return grouped | st.builds(operator.or_, inner, inner)


FILTERS = st.recursive(conditions(), combined, max_leaves=6)


@st.composite
def records(draw, user):
    scope = Scope(
        user_id=user, session_id=draw(FIELDS["session_id"]), agent_id=draw(st.none() | FIELDS["agent_id"])
    )
    made = []
    for n in range(draw(st.integers(1, 4))):
        same = {"id": f"r{n}", "user": user}
        kind = draw(FIELDS["kind"])
        own = {"pinned": draw(st.booleans())}
        if kind in ("fact", "knowledge"):
            own |= {"confidence": draw(SHARES), "metadata": draw(LABELS)}
        if kind == "message":
            role, labels = draw(FIELDS["role"]), draw(LABELS)
            own |= {"importance": draw(st.none() | SHARES), "name": draw(st.none() | TEXTS)}
            one = message("w", role=role, **same, **own)
            one = replace(one, extra={"metadata": labels, "subject": "a", "topic": "a"} if labels else {})
        elif kind == "fact":
            own |= {"speaker": draw(st.none() | TEXTS), "status": draw(FACT_STATUS)}
            own |= {"valid_to": draw(st.none() | MOMENTS), "category": draw(FIELDS["category"])}
            own |= {"text": draw(TEXTS)}
            one = fact(draw(TEXTS), **same, **own)
        elif kind == "knowledge":
            one = knowledge(f"w {draw(TEXTS)}", topic=draw(TEXTS), **same, **own)
        elif kind == "item":
            one = item("w", value=draw(VALUES), **same, **own)
        elif kind == "episode":
            own |= {"outcome": draw(FIELDS["outcome"]), "consolidated": draw(st.booleans())}
            own |= {"access_count": draw(st.integers(0, 2))}
            one = episode("w", target=draw(st.none() | TEXTS), **same, **own)
        else:
            one = replace(task(**same), target=draw(st.none() | TEXTS))
        said = {"started_at" if kind == "task" else "created_at": draw(MOMENTS)}
        made.append(replace(one, scope=scope, **said))
    return made


def holds(record, given):
    """Read a filter's dict as its documentation does."""
    return all(entry_holds(record, name, asked) for name, asked in given.items())


def entry_holds(record, name, asked):
    word = name.lower()
    if word in ("and", "or", "not"):
        held = [holds(record, part) for part in asked]
        return {"and": all(held), "or": any(held), "not": not any(held)}[word]
    if name in ("metadata", "value"):
        return all(entry_holds(record, f"{name}.{key}", one) for key, one in asked.items())
    label = name.startswith(("metadata.", "value."))
    there, value = value_of(record, name)
    if not isinstance(asked, dict):
        asked = {"in" if isinstance(asked, list) else "eq": asked}
    for op, operand in asked.items():
        wanted = operand if op in ("in", "nin") else [operand]
        equal = any((there and alike(value, w)) if w is not None or label else not there for w in wanted)
        comparable = there and order(value) == order(operand) is not None
        if op in COMPARED:
            held = comparable and getattr(operator, COMPARED[op])(value, operand)
        elif op in HOLDING:
            held = there and isinstance(value, str) and operand in value
            if op == "icontains" and there and isinstance(value, str):
                held = lowered(operand) in lowered(value)
        else:
            held = {"exists": there is operand}.get(op, equal is (op in ("eq", "in")))
        if not held:
            return False
    return True


def lowered(text):
    """Fold A to Z, and no other letter."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def alike(one, other):
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def order(value):
    if isinstance(value, bool | list | dict | None):
        return None
    return float if isinstance(value, int | float) else type(value)


def value_of(record, name):
    kind = type(record).__name__.lower()
    if name.startswith("metadata."):
        labels = getattr(record, "metadata", {})
        return name[9:] in labels, labels.get(name[9:])
    if name.startswith("value."):
        found = getattr(record, "value", {})
        for key in name[6:].split("."):
            if not isinstance(found, dict) or key not in found:
                return False, None
            found = found[key]
        return True, found
    if name == "kind":
        return True, kind
    holder = record.scope if name in ("session_id", "agent_id") else record
    if name == "text" and kind not in ("fact", "knowledge"):
        return False, None
    name = {("task", "created_at"): "started_at", ("knowledge", "text"): "content"}.get((kind, name), name)
    value = getattr(holder, name, None)
    return value is not None, value


@pytest.mark.slow
def test_a_filter_means_what_it_says(store):
    numbers = count()

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def agrees(data):
        user = f"user {next(numbers)}"
        stored = store.put(data.draw(records(user)))
        for given_ in data.draw(st.lists(FILTERS, min_size=1, max_size=6)):
            where, wanted = read_filter(given_), [one for one in stored if holds(one, given_)]
            assert [one for one in stored if matches(one, where)] == wanted, given_
            scope = Scope(user_id=user)
            found = find(store, *EVERY, scope=scope, where=where)
            assert {one.id for one in found} == {one.id for one in wanted}, given_
            if wanted:
                words = by_words(store, Query(scope=scope, text="w", where=where))
                assert set(words) <= {one.id for one in wanted}

    agrees()
