"""Reading the neutral file: what it means, and what is said of one that is wrong."""

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from jiyi.errors import ImportFailed
from jiyi.evaluate import load_dataset, read_dataset
from jiyi.evaluate.dataset import with_opaque_ids

HERE = Path(__file__).parent
SHARED = HERE.parents[2] / "shared" / "data"


@pytest.fixture
def data():
    return json.loads((HERE / "small-en.json").read_text("utf-8"))


def test_what_a_file_means():
    dataset = load_dataset(HERE / "small-en.json")
    assert (dataset.file, dataset.language, dataset.messages) == ("small-en.json", "en", 8)
    ports, garden = dataset.conversations
    dates = {message.id: message.created_at for message in ports.messages}
    assert dates["p1"] == datetime(2026, 3, 2, 9, tzinfo=UTC)
    assert dates["p3"] == datetime(2026, 3, 2, 9, 1, tzinfo=UTC)  # 30 seconds a message
    assert dates["p5"] == datetime(2026, 3, 6, 1, 0, 30, tzinfo=UTC)
    assert dates["p6"] == datetime(2026, 3, 6, 1, 30, tzinfo=UTC)
    assert [message.role for message in ports.messages] == [
        "user",
        "assistant",
        "user",
        "user",
        "tool",
        "assistant",
    ]
    assert ports.messages[0].name == "Dara"
    current, as_of, history, abstain = ports.questions
    assert (current.kind, current.category, current.stale) == ("current", "current", ("p1", "p2"))
    assert as_of.one_is_enough
    assert not history.one_is_enough
    assert (abstain.abstain, abstain.answerable, history.answerable) == (True, False, True)
    assert (garden.questions[0].category, garden.questions[0].kind) == ("single", "")


def test_the_language_of_a_file_that_names_none(data):
    del data["language"]
    assert read_dataset(data).language == "en"


def test_tool_calls_are_kept(data):
    call = {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": "{}"}}
    data["conversations"][1]["sessions"][0]["messages"][0] = {
        "id": "p1",
        "role": "assistant",
        "content": None,
        "tool_calls": [call],
    }
    assert read_dataset(data).conversations[1].messages[0].tool_calls[0].name == "shell"


def test_opaque_ids_say_nothing_and_lose_nothing():
    plain = load_dataset(HERE / "small-en.json").conversations[0]
    hidden = with_opaque_ids(plain, Random(1))
    text_of = {m.id: m.content for m in plain.messages}
    hidden_text_of = {m.id: m.content for m in hidden.messages}
    assert sorted(text_of.values()) == sorted(hidden_text_of.values())
    assert not set(text_of) & set(hidden_text_of)
    assert all(len(id_) == 32 for id_ in hidden_text_of)
    for before, after in zip(plain.questions, hidden.questions, strict=True):
        for field in ("evidence", "stale"):
            old, new = getattr(before, field), getattr(after, field)
            assert [text_of[id_] for id_ in old] == [hidden_text_of[id_] for id_ in new]
    assert not {session.id for session in plain.sessions} & {session.id for session in hidden.sessions}
    assert len({session.id for session in hidden.sessions}) == len(plain.sessions)
    assert with_opaque_ids(plain, Random(1)) == hidden
    assert with_opaque_ids(plain, Random(2)) != hidden


def test_opaque_ids_are_in_no_order():
    plain = load_dataset(HERE / "small-en.json").conversations[0]
    orders = {
        tuple(sorted(range(6), key=lambda i: with_opaque_ids(plain, Random(seed)).messages[i].id))
        for seed in range(20)
    }
    assert len(orders) > 10


def test_sessions_come_in_time_and_those_of_one_moment_in_any_order(data):
    sessions = data["conversations"][0]["sessions"]
    sessions.reverse()
    hidden = with_opaque_ids(read_dataset(data).conversations[0], Random(1))
    assert hidden.messages[0].content == "The gateway edge-02 listens on port 8443."
    for session in sessions:
        session["started_at"] = "2026-03-02T09:00:00"
    conversation = read_dataset(data).conversations[0]
    firsts = {with_opaque_ids(conversation, Random(seed)).messages[0].content for seed in range(20)}
    assert len(firsts) == 2


def cut(data, *path, value=None):
    """Return a copy with one place set, or removed."""
    data = copy.deepcopy(data)
    place = data
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data


FIRST = ("conversations", 0)
MESSAGE = (*FIRST, "sessions", 0, "messages", 0)
QUESTION = (*FIRST, "questions", 0)

WRONG = [
    (("conversations",), None, "needs a list conversations, not nothing"),
    (("conversations",), {}, "needs a list conversations, not {}"),
    (("conversations",), [], "no questions"),
    (FIRST, "words", "conversations[0] is text, not an object"),
    ((*FIRST, "conversation_id"), None, "conversations[0] needs conversation_id"),
    ((*FIRST, "sessions"), None, "('ports') needs a list sessions"),
    ((*FIRST, "sessions"), [], "('ports') has no messages"),
    ((*FIRST, "questions"), None, "('ports') needs a list questions"),
    ((*FIRST, "sessions", 0, "session_id"), 7, "sessions[0] needs session_id, text that no other has, not 7"),
    ((*FIRST, "sessions", 0, "started_at"), None, "has no created_at and its session no started_at"),
    ((*FIRST, "sessions", 0, "started_at"), "Monday", "needs started_at as an ISO 8601 date"),
    ((*FIRST, "sessions", 0, "started_at"), "9999-12-31T23:59:59", "out of range"),
    ((*FIRST, "sessions", 0, "messages"), "hi", "('monday') needs a list messages"),
    (MESSAGE, ["hi"], "messages[0] is a list, not an object"),
    ((*MESSAGE, "id"), None, "messages[0] needs id"),
    ((*MESSAGE, "id"), "", "messages[0] needs id"),
    ((*MESSAGE, "role"), "robot", "('p1'): role 'robot' is not one of"),
    ((*MESSAGE, "content"), None, "('p1') has no content"),
    ((*MESSAGE, "content"), 7, "('p1'): content must be text"),
    ((*MESSAGE, "created_at"), "soon", "('p1') needs created_at as an ISO 8601 date"),
    ((*MESSAGE, "created_at"), "0001-01-01T00:00:00+10:00", "needs created_at"),
    (QUESTION, 7, "questions[0] is a number, not an object"),
    ((*QUESTION, "id"), None, "questions[0] needs id"),
    ((*QUESTION, "question"), None, "('q1') needs question as text"),
    ((*QUESTION, "question"), "  ", "('q1') has no question"),
    ((*QUESTION, "asked_at"), None, "('q1') needs asked_at as an ISO 8601 date"),
    ((*QUESTION, "evidence"), ["p9"], "('q1') names 'p9' as evidence, which is no message"),
    ((*QUESTION, "evidence"), [["p1"]], "('q1') names ['p1'] as evidence"),
    ((*QUESTION, "evidence"), "p1", "('q1') needs a list evidence, not 'p1'"),
    ((*QUESTION, "stale"), ["p9"], "('q1') names 'p9' as stale"),
    ((*QUESTION, "evidence_mode"), "some", "has evidence_mode 'some'"),
    ((*QUESTION, "abstain"), "no", "has abstain 'no'"),
    ((*QUESTION, "category"), 7, "needs category as text, not 7"),
    (("conversations", 1, "conversation_id"), "ports", "conversation_id 'ports' twice"),
    ((*FIRST, "sessions", 1, "session_id"), "monday", "session_id 'monday' twice"),
    ((*FIRST, "sessions", 1, "messages", 0, "id"), "p1", "('ports') has the message id 'p1' twice"),
    ((*FIRST, "questions", 1, "id"), "q1", "('ports') has the question id 'q1' twice"),
]


@pytest.mark.parametrize(("path", "value", "reason"), WRONG, ids=[w[2] for w in WRONG])
def test_another_shape_is_refused_with_its_place(data, path, value, reason):
    with pytest.raises(ImportFailed) as refused:
        read_dataset(cut(data, *path, value=value), file="mine.json")
    assert reason in str(refused.value)
    assert str(refused.value).startswith("mine.json")
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"{", "is not JSON"),
        (b'{"a": 1}\n{"a": 2}', "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"[]", "holds a list"),
        (b"null", "holds null"),
        (b'{"conversations": [{"conversation_id": "c"}]}', "needs a list sessions"),
    ],
)
def test_files_that_are_none(tmp_path, content, reason):
    file = tmp_path / "mine.json"
    file.write_bytes(content)
    with pytest.raises(ImportFailed, match=reason):
        load_dataset(file)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ImportFailed, match="cannot be read: No such file"):
        load_dataset(tmp_path / "none.json")
    with pytest.raises(ImportFailed, match="cannot be read: Is a directory"):
        load_dataset(tmp_path)
    with pytest.raises(ImportFailed, match="is no path"):
        load_dataset("a\0b")


def test_a_mark_at_the_beginning_is_no_part_of_the_json(tmp_path, data):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(data), "utf-8-sig")
    assert load_dataset(str(file)).messages == 8


@pytest.mark.skipif(not SHARED.is_dir(), reason="the development files are not beside the clone")
def test_every_development_file_can_be_read():
    files = sorted(SHARED.glob("*.json"))
    assert files
    for file in files:
        dataset = load_dataset(file)
        assert dataset.questions, file.name
        assert any(question.answerable for question in dataset.questions), file.name
