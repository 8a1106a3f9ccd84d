"""Bad input: a typed error that says what to do, or it works; never anything half-written."""

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from functools import partial

import pytest
from tables import read_tables
from uses import uses

import jiyi
from jiyi import errors
from jiyi.errors import JiyiError, ScopeMissing

NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001
NOW, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
TOO_EARLY = datetime.min.replace(tzinfo=timezone(timedelta(hours=9)))  # in UTC it is before year 1
HELLO = {"role": "user", "content": "x"}
TWO_OF_ONE_ID = [jiyi.Message(role="user", content=text, id="same") for text in ("first", "second")]


def deep():
    value = []
    for _ in range(3000):
        value = {"in": value}
    return value


def say(memory, **fields):
    memory.save_message("s", **HELLO | fields)


def say_as(fields, memory):
    say(memory, **json.loads(fields))


def call(verb, arguments, named, memory):
    getattr(memory, verb)(*json.loads(arguments), **json.loads(named))


TABLES = read_tables(__file__)
BAD = {
    **{what: (error, partial(say_as, fields)) for what, error, fields in TABLES["messages"]},
    **{what: (error, partial(call, *told)) for what, error, *told in TABLES["calls"]},
    "bytes": ("BadMessage", lambda m: say(m, content=b"x")),
    "a set in a message": ("BadMessage", lambda m: m.save_message("s", HELLO | {"a": {1}})),
    "bytes in a part": ("BadMessage", lambda m: say(m, content=[{"type": "file", "file": {"data": b"x"}}])),
    "nan": ("BadMessage", lambda m: m.save_message("s", HELLO | {"a": float("nan")})),
    "an endless user": ("BadScope", lambda m: say(m, user_id="u" * 9999)),
    "nested without end": ("BadMessage", lambda m: m.save_message("s", HELLO | {"a": deep()})),
    "an object of a client library": ("BadMessage", lambda m: m.save_message("s", object())),
    "a naive date": ("NaiveDatetime", lambda m: say(m, created_at=NAIVE)),
    "a date before year 1": ("InputError", lambda m: say(m, created_at=TOO_EARLY)),
    "duplicate ids in one batch": ("DuplicateId", lambda m: m.save_messages("s", TWO_OF_ONE_ID)),
    "a question of bytes": ("BadQuery", lambda m: m.search(b"x")),
    "a naive filter": ("NaiveDatetime", lambda m: m.search("x", filters={"since": NAIVE})),
    "since after until": ("BadQuery", lambda m: m.search("x", filters={"since": LATER, "until": NOW})),
    "a fact of bytes": ("BadQuery", lambda m: m.remember(b"x")),
    "a fact from a naive date": ("NaiveDatetime", lambda m: m.remember("x", valid_from=NAIVE)),
    "a fact that ends first": ("BadQuery", lambda m: m.remember("x", valid_from=LATER, valid_to=NOW)),
    "facts of a naive date": ("NaiveDatetime", lambda m: m.facts(as_of=NAIVE)),
    "forgetting by a naive date": ("NaiveDatetime", lambda m: m.forget(filters={"since": NAIVE})),
    "restoring twice": ("BadQuery", lambda m: m.restore("known", forgotten_at=NOW)),
    "restoring a naive date": ("NaiveDatetime", lambda m: m.restore(forgotten_at=NAIVE)),
    "exporting to what is no name": ("InputError", lambda m: m.export("a\0b")),
}


@pytest.mark.parametrize(("error", "do"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_a_typed_error_and_nothing_is_written(memory, error, do):
    memory.save_message("s", role="user", content="what is there", id="known")
    before = memory.stats(), memory.recent_messages("s")
    with pytest.raises(getattr(errors, error)) as caught:
        do(memory)
    assert isinstance(caught.value, JiyiError)
    assert 10 < len(str(caught.value)) < 12_000
    assert (memory.stats(), memory.recent_messages("s")) == before
    assert memory.save_message("s", role="user", content="goes on").seq == 1


GOOD = {
    **{name: json.loads(text, strict=False) for name, text in TABLES["texts"]},
    "stacked marks": "a" + "\u0301" * 5000,
    "one long word": "x" * 100_000,
    "special tokens": "<|endoftext|><|im_start|>system",
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD.keys())
def test_any_text_can_be_saved_read_and_asked_about(memory, text):
    saved = memory.save_message("s", role="user", content=text)
    assert memory.recent_messages("s") == [saved]
    assert saved.content == text
    memory.flush()
    assert memory.stats()["vectors_pending"] == 0
    sent = re.sub("[\ud800-\udfff]", "\ufffd", text)  # what no API could be sent
    assert memory.build_context("s", text or None, 200_000).messages[-1]["content"] == sent
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


def test_dates_far_away_are_dates(memory):
    for year in (1, 1900, 2100, 9999):
        moment = datetime(year, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
        saved = memory.save_message("s", role="user", content=f"year {year}", created_at=moment)
        assert saved.created_at == moment
    hits = memory.search("year", filters={"since": datetime(2100, 1, 1, tzinfo=UTC)})
    assert {h.text for h in hits} == {"year 2100", "year 9999"}
    assert memory.build_context("s", "year?", 1000).report.tokens <= 1000


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
