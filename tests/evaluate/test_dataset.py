"""Reading the neutral file: what it means, and what is said of one that is wrong."""

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from refusing import refused
from tables import literals, read_tables

from jiyi.errors import ImportFailed
from jiyi.evaluate import load_dataset, read_dataset
from jiyi.evaluate.dataset import hide_ids

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
    roles = [message.role for message in ports.messages]
    assert roles == ["user", "assistant", "user", "user", "tool", "assistant"]
    assert ports.messages[0].name == "Dara"
    current, as_of, history, abstain = ports.questions
    assert (current.kind, current.category, current.stale) == ("current", "current", ("p1", "p2"))
    assert as_of.one_is_enough
    assert not history.one_is_enough
    assert (abstain.abstain, abstain.answerable, history.answerable) == (True, False, True)
    assert (garden.questions[0].category, garden.questions[0].kind) == ("single", "")


def test_a_language_is_found_where_none_is_named_and_tool_calls_are_kept(data):
    del data["language"]
    assert read_dataset(data).language == "en"
    call = {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": "{}"}}
    asks = {"id": "p1", "role": "assistant", "content": None, "tool_calls": [call]}
    data["conversations"][1]["sessions"][0]["messages"][0] = asks
    assert read_dataset(data).conversations[1].messages[0].tool_calls[0].name == "shell"


def test_opaque_ids_say_nothing_lose_nothing_and_are_in_no_order():
    plain = load_dataset(HERE / "small-en.json").conversations[0]
    hidden = hide_ids(plain, Random(1))
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
    assert hide_ids(plain, Random(1)) == hidden
    assert hide_ids(plain, Random(2)) != hidden
    orders = {
        tuple(sorted(range(6), key=lambda i: hide_ids(plain, Random(seed)).messages[i].id))
        for seed in range(20)
    }
    assert len(orders) > 10


def test_sessions_come_in_time_and_those_of_one_moment_in_any_order(data):
    sessions = data["conversations"][0]["sessions"]
    sessions.reverse()
    hidden = hide_ids(read_dataset(data).conversations[0], Random(1))
    assert hidden.messages[0].content == "The gateway edge-02 listens on port 8443."
    for session in sessions:
        session["started_at"] = "2026-03-02T09:00:00"
    conversation = read_dataset(data).conversations[0]
    assert len({hide_ids(conversation, Random(seed)).messages[0].content for seed in range(20)}) == 2


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


WRONG = read_tables(__file__)["path, value, reason"]  # without a value the path is taken out


@pytest.mark.parametrize(("path", "value", "reason"), WRONG, ids=[w[2] for w in WRONG])
def test_another_shape_is_refused_with_its_place(data, path, value, reason):
    place = [int(step) if step.isdigit() else step for step in path.split(".")]
    with pytest.raises(ImportFailed) as refused:
        read_dataset(cut(data, *place, value=json.loads(value or "null")), file="mine.json")
    assert reason in str(refused.value)
    assert str(refused.value).startswith("mine.json")
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("content", "reason"),
    [*literals(read_tables(__file__)["files that are none"]), (b"[" * 100_000, "is not JSON")],
)
def test_files_that_are_none(tmp_path, content, reason):
    file = tmp_path / "mine.json"
    file.write_bytes(content)
    refused(ImportFailed, reason, load_dataset, file)


def test_a_mark_at_the_beginning_is_no_part_of_a_file_and_what_cannot_be_read_is_named(tmp_path, data):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(data), "utf-8-sig")
    assert load_dataset(str(file)).messages == 8
    refused(ImportFailed, "cannot be read: No such file", load_dataset, tmp_path / "none.json")
    refused(ImportFailed, "cannot be read: Is a directory", load_dataset, tmp_path)
    refused(ImportFailed, "is no path", load_dataset, "a\0b")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the development files are not beside the clone")
def test_every_development_file_can_be_read():
    files = sorted(SHARED.glob("*.json"))
    assert files
    for file in files:
        dataset = load_dataset(file)
        assert dataset.questions, file.name
        assert any(question.answerable for question in dataset.questions), file.name
