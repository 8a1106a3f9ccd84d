"""Records go wherever values go: copied, pickled, turned into dicts."""

import copy
import pickle
from dataclasses import asdict
from datetime import UTC, datetime

import pytest

from jiyi.records import Budget, Episode, Fact, Hit, Knowledge, Message, Query, Scope, Step, Task

SCOPE = Scope(user_id="ana", session_id="s")
NOW = datetime(2026, 3, 4, tzinfo=UTC)
CALL = {"id": "c", "type": "function", "function": {"name": "shell", "arguments": "{}"}}
STEP = Step(scope=SCOPE, task_id="t", description="look")
RECORDS = [
    Message(role="user", content="hi"),
    Message.from_openai({"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None}),
    STEP,
    Task(scope=SCOPE, request="mend", started_at=NOW, updated_at=NOW, steps=(STEP,)),
    Episode(scope=SCOPE, trigger_summary="alert", outcome="success", created_at=NOW),
    Knowledge(scope=SCOPE, topic="disks", content="clean", created_at=NOW, updated_at=NOW),
    Fact(scope=SCOPE, subject="edge-02", predicate="port", object="8444", created_at=NOW, sources=("m",)),
    Budget(max_input_tokens=100),
    Query(scope=SCOPE, text="x", as_of=NOW, fact_status=("active",), sources=("m",)),
    Hit(record=Message(role="user", content="hi"), kind="message", score=1.0),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_copies_are_equal(record):
    assert copy.deepcopy(record) == record
    assert pickle.loads(pickle.dumps(record)) == record
    assert set(asdict(record)) == set(type(record).__dataclass_fields__)
