"""Records as one JSON text and back: whatever they hold comes back as it was."""

import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import ANA, START, fact, knowledge

from jiyi.errors import InputError
from jiyi.records import Episode, Fact, Knowledge, Message, Query, Scope, Step, Task, ToolCall
from jiyi.storage import SqliteDatabase, Store, Trash
from jiyi.storage.rows import decode, decode_json, encode, encode_json, kind_of

# Any text, lone surrogates too; two halves side by side come back as the one character they make.
TEXT = st.text(st.characters(), max_size=40).filter(
    lambda t: t == t.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)
MAYBE = st.none() | TEXT
IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
TEXTS = st.lists(TEXT, max_size=4).map(tuple)
MOMENTS = st.datetimes(timezones=st.just(UTC)) | st.sampled_from(
    [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)]
)
WHEN = st.none() | MOMENTS
SHARES = st.floats(0, 1)
COUNTS = st.integers(0, 2**40)
JSON = st.dictionaries(
    TEXT,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)
NAMED = IDS.filter(str.strip)
SCOPES = st.builds(Scope, user_id=NAMED, agent_id=st.none() | NAMED, session_id=NAMED)
ALIKE = [
    (TEXT, "subject predicate object text topic content description trigger_summary outcome_summary request"),
    (MAYBE, "speaker tool_name result target summary name"),
    (TEXTS, "sources key_points source_episodes tags"),
    (MOMENTS, "created_at updated_at"),
    (WHEN, "valid_from valid_to last_accessed_at completed_at started_at"),
    (IDS, "id"),
    (st.none() | IDS, "supersedes superseded_by"),
    (SHARES, "confidence importance"),
    (COUNTS, "access_count"),
    (JSON, "args context"),
]
FIELDS = {name: values for values, names in ALIKE for name in names.split()}


def built(make, names="", **own):
    """Records of a class: their fields as named, each with the values such a field may have."""
    return st.builds(make, **({"scope": SCOPES} | {name: FIELDS[name] for name in names.split()} | own))


USED = " id created_at last_accessed_at access_count"
FACTS = built(
    Fact,
    "subject predicate object text speaker sources valid_from valid_to confidence supersedes superseded_by"
    + USED,
)
KNOWLEDGE = built(Knowledge, "topic content key_points source_episodes updated_at confidence" + USED)
OF_A_TASK = {"scope": st.just(ANA), "task_id": st.just("t")}
STEP = "id description tool_name args result started_at completed_at"
STEPS = built(Step, STEP, seq=st.integers(0, 99), **OF_A_TASK)
SEVERAL = st.lists(STEPS, max_size=2).map(tuple)
EPISODES = built(
    Episode, "trigger_summary outcome_summary target tags importance" + USED, steps=SEVERAL, **OF_A_TASK
)
TASK = "request summary target tags context updated_at completed_at"
TASKS = built(Task, TASK, scope=st.just(ANA), id=st.just("t"), steps=SEVERAL, started_at=MOMENTS)
CALLS = st.lists(st.builds(ToolCall, id=IDS, name=TEXT, arguments=TEXT), max_size=2).map(tuple)
SAID = {"role": st.just("assistant"), "content": MAYBE, "seq": st.integers(0, 10**9), "pinned": st.booleans()}
SAID |= {"tool_calls": CALLS, "importance": st.none() | SHARES, "tokens": st.none() | COUNTS}
MESSAGES = built(Message, "id name created_at", **SAID)


@pytest.mark.slow
@given(st.one_of(FACTS, KNOWLEDGE, EPISODES, TASKS, STEPS, MESSAGES))
def test_any_record_comes_back_from_one_text(record):
    text = encode_json(record)
    text.encode()
    json.loads(text)
    assert decode_json(kind_of(record), text) == record


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    database = SqliteDatabase(tmp_path_factory.mktemp("whole") / "agent.db")
    yield Store(database), Trash(database)
    database.close()


class Undo(Exception):
    """Raised to leave nothing of an example behind."""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(record=st.one_of(FACTS, KNOWLEDGE, EPISODES, TASKS, MESSAGES))
def test_any_record_lies_in_the_trash_and_comes_back_as_it_was(opened, record):
    store, trash = opened
    record = replace(record, seq=None) if isinstance(record, Message) else record
    kind = kind_of(record)
    query = Query(scope=Scope(user_id=record.scope.user_id), kinds=(kind,))
    with suppress(Undo), store.transaction():
        store.put([record])
        for step in {s.id: s for s in record.steps}.values() if isinstance(record, Task) else ():
            store.put([step])
        (stored,) = store.find(query)
        assert trash.discard(query.scope, [(kind, record.id)], reason="x", at=START) == {kind: 1}
        assert [entry.record for entry in trash.discarded(query)] == [stored]
        assert trash.restore(query.scope, [(kind, record.id)]) == [stored]
        assert store.find(query) == [stored]
        raise Undo
    if not isinstance(record, Task | Message):
        assert stored == record


@given(FACTS)
def test_any_fact_comes_back_from_its_columns(record):
    row = encode(record)
    assert decode("fact", row) == record
    for name in ("subject_key", "object_key", "predicate_key", "body"):
        row[name].encode()
    assert all("\0" not in row[name] for name in ("subject_key", "object_key", "predicate_key"))


@pytest.mark.parametrize("make", [knowledge, fact])
def test_what_is_no_number_is_refused(make):
    with pytest.raises(InputError, match=r"JSON|number"):
        encode_json(replace(make(), confidence=float("nan")))
