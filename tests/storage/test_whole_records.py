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
SCOPES = st.builds(
    Scope,
    user_id=IDS.filter(str.strip),
    agent_id=st.none() | IDS.filter(str.strip),
    session_id=IDS.filter(str.strip),
)
FACTS = st.builds(
    Fact,
    scope=SCOPES,
    id=IDS,
    subject=TEXT,
    predicate=TEXT,
    object=TEXT,
    text=TEXT,
    speaker=MAYBE,
    sources=TEXTS,
    created_at=MOMENTS,
    valid_from=WHEN,
    valid_to=WHEN,
    last_accessed_at=WHEN,
    confidence=SHARES,
    supersedes=st.none() | IDS,
    superseded_by=st.none() | IDS,
    access_count=COUNTS,
)
KNOWLEDGE = st.builds(
    Knowledge,
    scope=SCOPES,
    id=IDS,
    topic=TEXT,
    content=TEXT,
    key_points=TEXTS,
    source_episodes=TEXTS,
    created_at=MOMENTS,
    updated_at=MOMENTS,
    last_accessed_at=WHEN,
    confidence=SHARES,
    access_count=COUNTS,
)
STEPS = st.builds(
    Step,
    scope=st.just(ANA),
    task_id=st.just("t"),
    id=IDS,
    seq=st.integers(0, 99),
    description=TEXT,
    tool_name=MAYBE,
    args=JSON,
    result=MAYBE,
    started_at=WHEN,
    completed_at=WHEN,
)
EPISODES = st.builds(
    Episode,
    scope=st.just(ANA),
    id=IDS,
    task_id=st.just("t"),
    trigger_summary=TEXT,
    outcome_summary=TEXT,
    target=MAYBE,
    tags=TEXTS,
    steps=st.lists(STEPS, max_size=2).map(tuple),
    created_at=MOMENTS,
    last_accessed_at=WHEN,
    importance=SHARES,
    access_count=COUNTS,
)
TASKS = st.builds(
    Task,
    scope=st.just(ANA),
    id=st.just("t"),
    request=TEXT,
    summary=MAYBE,
    target=MAYBE,
    tags=TEXTS,
    context=JSON,
    steps=st.lists(STEPS, max_size=2).map(tuple),
    started_at=MOMENTS,
    updated_at=MOMENTS,
    completed_at=WHEN,
)
MESSAGES = st.builds(
    Message,
    scope=SCOPES,
    id=IDS,
    role=st.just("assistant"),
    content=MAYBE,
    name=MAYBE,
    tool_calls=st.lists(st.builds(ToolCall, id=IDS, name=TEXT, arguments=TEXT), max_size=2).map(tuple),
    seq=st.integers(0, 10**9),
    importance=st.none() | SHARES,
    pinned=st.booleans(),
    created_at=MOMENTS,
    tokens=st.none() | COUNTS,
)


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


def test_the_search_text_and_the_moment_of_a_fact():
    said = fact("edge-02", "", "8444")
    assert said.search_text == "edge-02 8444"
    assert said.recorded_at == said.created_at == START
