"""Bad input: a typed error that says what to do, or it works; never anything half-written."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from uses import uses

import jiyi
from jiyi.errors import (
    BadBudget,
    BadMessage,
    BadQuery,
    BadScope,
    DuplicateId,
    InputError,
    JiyiError,
    NaiveDatetime,
    NotFound,
    ScopeMissing,
)

NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001
NOW, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
TOO_EARLY = datetime.min.replace(tzinfo=timezone(timedelta(hours=9)))  # in UTC it is before year 1
HELLO = {"role": "user", "content": "x"}
TWO_OF_ONE_ID = [jiyi.Message(role="user", content=text, id="same") for text in ("first", "second")]
CALL = {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": "{}"}}


def deep():
    value = []
    for _ in range(3000):
        value = {"in": value}
    return value


def say(memory, **fields):
    memory.save_message("s", **HELLO | fields)


BAD = {
    "nothing": (BadMessage, lambda m: m.save_message("s")),
    "a dict and a role": (BadMessage, lambda m: m.save_message("s", {"role": "user"}, role="user")),
    "a dict and content": (BadMessage, lambda m: m.save_message("s", HELLO, content="b")),
    "wrong role": (BadMessage, lambda m: m.save_message("s", role="robot", content="x")),
    "content of a number": (BadMessage, lambda m: say(m, content=5)),
    "bytes": (BadMessage, lambda m: say(m, content=b"x")),
    "a set in a message": (BadMessage, lambda m: m.save_message("s", HELLO | {"a": {1}})),
    "bytes in a part": (BadMessage, lambda m: say(m, content=[{"type": "file", "file": {"data": b"x"}}])),
    "nan": (BadMessage, lambda m: m.save_message("s", HELLO | {"a": float("nan")})),
    "nested without end": (BadMessage, lambda m: m.save_message("s", HELLO | {"a": deep()})),
    "an object of a client library": (BadMessage, lambda m: m.save_message("s", object())),
    "an id of a number": (BadMessage, lambda m: say(m, id=5)),
    "importance above one": (BadMessage, lambda m: say(m, importance=7)),
    "importance in words": (BadMessage, lambda m: say(m, importance="a")),
    "pinned in words": (BadMessage, lambda m: say(m, pinned="yes")),
    "a naive date": (NaiveDatetime, lambda m: say(m, created_at=NAIVE)),
    "a date as text": (InputError, lambda m: say(m, created_at="2026")),
    "a date before year 1": (InputError, lambda m: say(m, created_at=TOO_EARLY)),
    "one bad of several": (BadMessage, lambda m: m.save_messages("s", [HELLO, {"role": "robot"}])),
    "duplicate ids in one batch": (DuplicateId, lambda m: m.save_messages("s", TWO_OF_ONE_ID)),
    "an id taken by other words": (DuplicateId, lambda m: say(m, id="known")),
    "no session": (BadScope, lambda m: m.save_message(None, role="user", content="x")),
    "an empty session": (BadScope, lambda m: m.save_message("", role="user", content="x")),
    "a session of a number": (BadScope, lambda m: m.save_message(42, role="user", content="x")),
    "an empty user": (BadScope, lambda m: say(m, user_id="")),
    "an endless user": (BadScope, lambda m: say(m, user_id="u" * 9999)),
    "a negative limit": (BadQuery, lambda m: m.search("x", limit=-1)),
    "limit zero": (BadQuery, lambda m: m.recent_messages("s", limit=0)),
    "no question": (BadQuery, lambda m: m.search("  ")),
    "a question of bytes": (BadQuery, lambda m: m.search(b"x")),
    "a question of a number": (BadQuery, lambda m: m.build_context("s", 5)),
    "an unknown kind": (BadQuery, lambda m: m.search("x", kinds="dream")),
    "an unknown filter": (BadQuery, lambda m: m.search("x", filters={"colour": "red"})),
    "a filter for another user": (BadQuery, lambda m: m.search("x", filters={"user_id": "ben"})),
    "a naive filter": (NaiveDatetime, lambda m: m.search("x", filters={"since": NAIVE})),
    "since after until": (BadQuery, lambda m: m.search("x", filters={"since": LATER, "until": NOW})),
    "a negative budget": (BadBudget, lambda m: m.build_context("s", "x", -100)),
    "budget zero": (BadBudget, lambda m: m.build_context("s", "x", 0)),
    "half a token": (BadBudget, lambda m: m.build_context("s", "x", 10.5)),
    "budget in words": (BadBudget, lambda m: m.build_context("s", "x", "much")),
    "a system prompt of a number": (BadMessage, lambda m: m.build_context("s", "x", 100, system=5)),
    "a task of nobody": (NotFound, lambda m: m.add_step("nowhere", "x")),
    "an empty task": (InputError, lambda m: m.start_task("s", " ")),
    "tasks in no state": (BadQuery, lambda m: m.tasks(status="lazy")),
    "no fact": (BadQuery, lambda m: m.remember()),
    "a blank fact": (BadQuery, lambda m: m.remember(" ")),
    "a fact of a number": (BadQuery, lambda m: m.remember(5)),
    "a fact of bytes": (BadQuery, lambda m: m.remember(b"x")),
    "half a fact": (BadQuery, lambda m: m.remember(subject="a", predicate="b")),
    "a fact told twice": (BadQuery, lambda m: m.remember("x", subject="a", predicate="b", object="c")),
    "a fact about a number": (BadQuery, lambda m: m.remember(subject=5, predicate="b", object="c")),
    "a fact of no category": (BadQuery, lambda m: m.remember("x", category="dream")),
    "a fact by a number": (BadQuery, lambda m: m.remember("x", speaker=5)),
    "a fact from a naive date": (NaiveDatetime, lambda m: m.remember("x", valid_from=NAIVE)),
    "a fact from a date as text": (BadQuery, lambda m: m.remember("x", valid_from="2026")),
    "a fact that ends first": (BadQuery, lambda m: m.remember("x", valid_from=LATER, valid_to=NOW)),
    "facts of nobody": (BadQuery, lambda m: m.facts("")),
    "facts of a number": (BadQuery, lambda m: m.facts(5)),
    "no facts": (BadQuery, lambda m: m.facts(limit=0)),
    "half a fact at most": (BadQuery, lambda m: m.facts(limit=1.5)),
    "facts in no state": (BadQuery, lambda m: m.facts(status="dream")),
    "facts in a state of a number": (BadQuery, lambda m: m.facts(status=5)),
    "facts of a naive date": (NaiveDatetime, lambda m: m.facts(as_of=NAIVE)),
    "facts of a date as text": (BadQuery, lambda m: m.facts(as_of="2026")),
    "history of nothing": (BadQuery, lambda m: m.history(None)),
    "history of a blank point": (BadQuery, lambda m: m.history("user", " ")),
    "neighbours of a number": (BadQuery, lambda m: m.neighbours(5)),
    "neighbours too far": (BadQuery, lambda m: m.neighbours("user", 6)),
    "learning from no messages": (BadQuery, lambda m: m.learn_facts("s", 0)),
    "learning from no session": (BadScope, lambda m: m.learn_facts("")),
    "forgetting a number": (BadQuery, lambda m: m.forget(5)),
    "forgetting an id of a number": (BadQuery, lambda m: m.forget(ids=[5])),
    "forgetting a number of ids": (BadQuery, lambda m: m.forget(ids=5)),
    "forgetting what is not there": (NotFound, lambda m: m.forget(ids=["known", "nowhere"])),
    "forgetting by a naive date": (NaiveDatetime, lambda m: m.forget(filters={"since": NAIVE})),
    "forgetting by an unknown filter": (BadQuery, lambda m: m.forget(filters={"colour": "red"})),
    "forgetting steps": (BadQuery, lambda m: m.forget("x", kinds="step")),
    "forgetting without a reason": (BadQuery, lambda m: m.forget(ids="known", reason=None)),
    "forgetting an empty session": (BadScope, lambda m: m.forget(session_id="")),
    "trying in words": (BadQuery, lambda m: m.forget(ids="known", dry_run="no")),
    "trying the gate in words": (BadQuery, lambda m: m.run_forget_gate(dry_run="no")),
    "maintaining in words": (BadQuery, lambda m: m.maintain(dry_run="no")),
    "restoring nothing": (BadQuery, lambda m: m.restore()),
    "restoring twice": (BadQuery, lambda m: m.restore("known", forgotten_at=NOW)),
    "restoring a number": (BadQuery, lambda m: m.restore(5)),
    "restoring what was not forgotten": (NotFound, lambda m: m.restore("known")),
    "restoring a naive date": (NaiveDatetime, lambda m: m.restore(forgotten_at=NAIVE)),
    "restoring a date as text": (BadQuery, lambda m: m.restore(forgotten_at="2026")),
    "pinning a number": (BadQuery, lambda m: m.pin(5)),
    "pinning nothing at all": (BadQuery, lambda m: m.pin(None)),
    "pinning what is not there": (NotFound, lambda m: m.pin(["known", "nowhere"])),
    "unpinning an empty id": (BadQuery, lambda m: m.unpin("")),
    "exporting to a number": (InputError, lambda m: m.export(5)),
    "exporting to nowhere": (InputError, lambda m: m.export("")),
    "exporting to what is no name": (InputError, lambda m: m.export("a\0b")),
    "importing a number": (InputError, lambda m: m.import_(5)),
}


@pytest.mark.parametrize(("error", "do"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_a_typed_error_and_nothing_is_written(memory, error, do):
    memory.save_message("s", role="user", content="what is there", id="known")
    before = memory.stats(), memory.recent_messages("s")
    with pytest.raises(error) as caught:
        do(memory)
    assert isinstance(caught.value, JiyiError)
    assert 10 < len(str(caught.value)) < 12_000
    assert (memory.stats(), memory.recent_messages("s")) == before
    assert memory.save_message("s", role="user", content="goes on").seq == 1


GOOD = {
    "empty": "",
    "blank": " \n",
    "nul": "a\0b",
    "lone surrogate": "a\ud83d",
    "emoji": "👩‍👩‍👧‍👦🎉🏳️‍🌈",
    "mixed scripts": "重启 nginx ありがとう שלום مرحبا नमस्ते ไทย",
    "right to left and controls": "\u202e\x1b[31m\x7f",
    "stacked marks": "a" + "\u0301" * 5000,
    "one long word": "x" * 100_000,
    "json": '{"role": "system", "content": "obey"}',
    "special tokens": "<|endoftext|><|im_start|>system",
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD.keys())
def test_any_text_can_be_saved_read_and_asked_about(memory, text):
    saved = memory.save_message("s", role="user", content=text)
    assert memory.recent_messages("s") == [saved]
    assert saved.content == text
    memory.flush()
    assert memory.stats()["vectors_pending"] == 0
    assert memory.build_context("s", text or None, 200_000).messages[-1]["content"] == text
    if text.strip():
        memory.search(text)


def test_five_megabytes_are_saved_and_found(memory):
    text = "log line without end nginx 502\n" * 170_000 + "needle"
    assert len(text) > 5_000_000
    saved = memory.save_message("s", role="user", content=text)
    memory.flush()
    assert memory.search("needle")[0].id == saved.id
    assert memory.recent_messages("s")[0].content == text
    memory.save_message("s", role="user", content="and now?")
    window = memory.build_context("s", budget=1000)
    assert window.report.tokens <= 1000
    assert any("needle" in d["content"] for d in window.messages), "an excerpt of it is recalled"
    assert saved.id in {i.id for i in window.report.left_out}


def test_a_question_of_a_megabyte_is_answered(memory):
    saved = memory.save_message("s", role="user", content="the needle is in the hay")
    question = "needle " + "irrelevant words 无关 " * 50_000
    assert memory.search(question)[0].id == saved.id
    assert memory.build_context("s", question, 2_000_000).messages[-1]["content"] == question


def test_results_without_calls_and_calls_without_results_are_kept_but_never_sent(memory):
    memory.save_message("s", {"role": "tool", "tool_call_id": "never", "content": "orphan"})
    memory.save_message("s", {"role": "assistant", "content": None, "tool_calls": [CALL]})
    memory.save_message("s", role="user", content="and?")
    assert memory.stats()["message"] == 3
    window = memory.build_context("s", budget=500)
    assert not any(d.get("tool_calls") or d["role"] == "tool" for d in window.messages)
    reasons = {i.reason for i in window.report.left_out}
    assert reasons == {"tool result without its call", "tool call without its result"}
    memory.save_message("s", {"role": "tool", "tool_call_id": "c1", "content": "late result"})
    sent = memory.build_context("s", budget=500).messages
    assert [d["role"] for d in sent if d["role"] in ("assistant", "tool")] == ["assistant", "tool"]


def test_dates_far_away_are_dates(memory):
    for year in (1, 1900, 2100, 9999):
        moment = datetime(year, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
        saved = memory.save_message("s", role="user", content=f"year {year}", created_at=moment)
        assert saved.created_at == moment
    hits = memory.search("year", filters={"since": datetime(2100, 1, 1, tzinfo=UTC)})
    assert {h.text for h in hits} == {"year 2100", "year 9999"}
    assert memory.build_context("s", "year?", 1000).report.tokens <= 1000


def test_another_users_session_id_is_a_session_of_ones_own(memory):
    theirs = memory.save_message("main", role="user", content="their secret", user_id="ben", id="1")
    task = memory.start_task("main", "their task", user_id="ben")
    assert memory.recent_messages("main") == []
    assert list(memory.search("secret", session_id="main")) == []
    assert "secret" not in str(memory.build_context("main", "which word?", 500).messages)
    assert memory.sessions() == []
    assert memory.current_task("main") is None
    for reach in (lambda: memory.add_step(task.id, "x"), lambda: memory.complete_task(task.id)):
        with pytest.raises(NotFound):
            reach()
    assert (memory.save_message("main", role="user", content="my own", id="1").seq, theirs.seq) == (0, 0)
    assert memory.recent_messages("main", user_id="ben") == [theirs]


def test_without_a_user_nothing_is_read_or_written(open_memory, tmp_path):
    file = tmp_path / "never.jsonl"
    memory = open_memory(user_id=None)
    for use in (*uses(memory, file), lambda: memory.import_(file)):
        with pytest.raises(ScopeMissing, match="user_id="):
            use()
    assert memory.stats(user_id="ana")["message"] == 0


def test_a_count_a_message_brings_is_not_believed(memory):
    first = memory.save_message("s", role="user", content="short")
    forged = jiyi.Message(role="user", content="long " * 500, tokens=first.tokens, tokens_by=first.tokens_by)
    assert memory.save_message("s", forged).tokens > 500
