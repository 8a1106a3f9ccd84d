"""Summaries without a model: what is kept, how much, and for how long."""

import time
from datetime import datetime, timedelta, timezone

import pytest
from conversations import assistant, user
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import raises, refused
from tables import literals, read_tables

from jiyi.compression.summarize import Summarize
from jiyi.errors import BadMessage, InputError
from jiyi.records import Message, ToolCall
from jiyi.text import counter_for

TABLES = read_tables(__file__)
COUNTER = counter_for()
TONGUES = pytest.mark.parametrize("language", ["zh", "en"])


def tool(name, arguments, output, number=1):
    call = ToolCall(id=f"c{number}", name=name, arguments=arguments)
    return [
        Message(role="assistant", tool_calls=(call,), id=f"call{number}"),
        Message(role="tool", tool_call_id=f"c{number}", content=output, id=f"result{number}"),
    ]


LOGS = "09:41:02 INFO started\n09:41:05 ERROR upstream timed out (110) to 10.0.3.17:8080\n09:41:09 INFO retry"
LOGS_READ = tool("shell", '{"cmd": "docker logs --tail 50 pay-gw"}', LOGS)
POOL = "/etc/order/pool.yaml"
POOL_SET = tool("edit_config", f'{{"file": "{POOL}", "max": 120}}', f"ok: wrote {POOL}", 2)


def conversation(language):
    """A talk of the tables; a call of a tool and its result stand there by name."""
    made = []
    for role, said, *id_ in TABLES[f"talk {language}"]:
        given = dict(zip(["id"], id_, strict=False))
        made += TOOLS[said] if role == "tool" else [Message(role=role, content=said, **given)]
    return made


TOOLS = {"LOGS_READ": LOGS_READ, "POOL_SET": POOL_SET}
TALKS = {language: conversation(language) for language in ("zh", "en")}


@TONGUES
def test_what_matters_is_kept_small_talk_is_not_and_less_room_keeps_the_decisions(language):
    made = Summarize(max_tokens=230)(TALKS[language], previous="")
    for words in literals(TABLES[f"kept {language}"]):
        assert words in made.text
    for words in TABLES[f"left out {language}"]:
        assert words not in made.text
    assert all(line.startswith("- ") for line in made.text.splitlines())
    assert (made.method, made.notes) == ("extractive", ())
    assert made.tokens == COUNTER.count_text(made.text) <= 230 < made.tokens_before
    made = Summarize(max_tokens=80)(TALKS[language], previous="")
    assert ("白天不能重启" if language == "zh" else "never restart") in made.text
    assert 40 < made.tokens <= 80
    assert "decided" in made.sources


def test_sources_are_the_messages_something_is_left_of():
    made = Summarize(max_tokens=230)(TALKS["en"], previous="")
    ids = [message.id for message in TALKS["en"]]
    assert list(made.sources) == sorted(made.sources, key=ids.index)
    assert {"asked", "decided", "call1", "result1"} <= set(made.sources)
    assert TALKS["en"][0].id not in made.sources


def talk_of_400(language):
    """Chit-chat, details and small talk; one decision at the third message."""
    decision, detail, failure, chat, nod = TABLES[f"lines {language}"]
    talk = []
    for n in range(400):
        line = detail if n % 10 == 0 else failure if n % 7 == 0 else chat if n % 3 == 0 else nod
        text = decision if n == 2 else line.format(n=n, port=8000 + n)
        talk.append((user if n % 2 == 0 else assistant)(text))
    return talk


@pytest.mark.parametrize(
    ("language", "decided"), [("zh", "一律走蓝绿部署"), ("en", "every release goes blue-green")]
)
def test_an_early_decision_survives_twenty_folds(language, decided):
    talk, write, summary = talk_of_400(language), Summarize(max_tokens=300), ""
    for start in range(0, 400, 20):
        summary = write(talk[start : start + 20], previous=summary).text
        assert decided in summary
        assert COUNTER.count_text(summary) <= 300
    assert "39" in summary, "and what was said last is there too"
    assert decided in write(talk, previous="").text


@TONGUES
def test_a_decision_survives_among_other_decisions(language):
    """With room for about thirty points, the first of ten decisions is not pushed out by the last."""
    words = {"zh": "决定：模块{}交给第{}组负责。", "en": "We decided: module {} goes to team {}."}[language]
    names = ("alpha", "bravo", "cobalt", "delta", "ember", "falcon", "garnet", "harbor", "indigo", "juniper")
    write, summary = Summarize(max_tokens=400), ""
    for n, name in enumerate(names):
        summary = write([user(words.format(name, n)), *talk_of_400(language)[20:40]], previous=summary).text
    assert all(name in summary for name in names)


def test_a_to_do_that_is_done_goes():
    write = Summarize(max_tokens=200)
    before = "- User: TODO: renew the wildcard certificate for shop.example.com.\n- User: TODO: call Li."
    renewed = user("The wildcard certificate for shop.example.com is renewed now.")
    after = write([renewed, *TALKS["en"]], previous=before)
    assert "TODO: renew" not in after.text
    assert "TODO: call Li" in after.text
    before = "- 用户：待办：续通配符证书。\n- 用户：待办：给小王打电话。"
    zh = write([user("通配符证书已经续好了，续通配符证书这件事已完成。")], previous=before)
    assert "待办：续通配符证书" not in zh.text
    assert "给小王打电话" in zh.text


def test_the_same_said_again_is_there_once_and_a_new_number_is_not_the_same():
    text = "The staging database runs on db-west port 5433."
    talk = [user(text), assistant("ok"), user(text), user(text.upper())]
    assert Summarize(max_tokens=200)(talk, previous="- User: " + text).text.lower().count("db-west") == 1
    before = "- User: The staging database listens on port 5433 of db-west."
    said = user("The staging database listens on port 6000 of db-west.")
    made = Summarize(max_tokens=25)([said, *TALKS["en"]], previous=before)
    assert "6000" in Summarize(max_tokens=300)([said], previous=before).text
    assert "5433" not in made.text


def test_the_first_point_of_each_day_has_its_date_through_every_fold():
    zone = timezone(timedelta(hours=8))
    summarize = Summarize(zone=zone, language="en")

    def said(day, *texts):
        at = datetime(2026, 3, day, 9, tzinfo=zone)
        return [user(text, created_at=at) for text in texts]

    text = ""
    for day, texts in (
        (1, ["The port is 8443.", "The budget is 900 euros."]),
        (2, ["The port is 9443 now."]),
    ):
        text = summarize(said(day, *texts), previous=text).text
    assert (
        summarize(said(2, "The pool has 40 connections."), previous=text).text.splitlines()
        == TABLES["the first point of each day has its date through every fold"]
    )


def test_speakers_keep_their_names_and_are_called_in_the_language_asked_for():
    ana, bo = user("I live in Porto.", name="Ana"), assistant("And I am from Lyon.", name="Bo")
    made = Summarize()([ana, bo], previous="")
    assert made.text == "- Ana: I live in Porto.\n- Bo: And I am from Lyon."
    assert Summarize()([ana], previous=made.text).text == made.text
    talk = [user("the port is 8080"), assistant("端口改到 9090 了")]
    assert "User: the port" in Summarize(language="en")(talk, previous="").text
    assert "助手：端口" in Summarize(language="zh")(talk, previous="").text


def test_small_texts_come_back_as_they_are_and_nothing_gives_nothing():
    assert Summarize()("only this\n  and that").text == "only this\n  and that"
    made = Summarize()(["one", {"role": "assistant", "content": "two"}, user("three", id="m3")])
    assert made.text == "one\ntwo\nthree"
    assert made.tokens == made.tokens_before == COUNTER.count_text(made.text)
    assert made.sources[-1] == "m3"
    for empty in ("", [], [user("  ")], [assistant("")]):
        made = Summarize()(empty, previous="")
        assert (made.text, made.tokens, made.sources) == ("", 0, ())
    assert Summarize()([], previous="- User: the port is 8080").text == "- User: the port is 8080"


def test_a_long_text_is_cut_to_its_points():
    remember = "Remember: the key is under the blue pot. "
    text = "We met on Monday. " * 30 + remember + "It was nice there. " * 60
    made = Summarize(max_tokens=60)(text)
    assert "the key is under the blue pot" in made.text
    assert made.tokens <= 60


def test_code_outputs_and_pictures_are_shown_in_a_line():
    rows = [f"row {n}: fine" for n in range(5_000)]
    long = "\n".join([*rows, "Traceback (most recent call last):", "ValueError: bad row 4711"])
    code = "```py\nimport jiyi\nmemory = jiyi.open()\n```"
    image = Message(role="user", content=({"type": "image_url", "image_url": {"url": "x"}},))
    made = Summarize(max_tokens=300)([image, assistant(code), *tool("load", "not json", long)], previous="")
    assert made.text.splitlines() == [
        "- User: [image_url]",
        "- Assistant: import jiyi …",
        "- Tool load(not json) → ValueError: bad row 4711",
    ]


def test_a_call_without_its_result_and_a_result_without_its_call():
    made = Summarize()([*tool("ping", "{}", "pong")[:1], *tool("scan", "{}", "3 hosts", 2)[1:]], previous="")
    assert made.text == "- Tool ping → …\n- Tool → 3 hosts"


@pytest.mark.parametrize("options", literals(TABLES["what cannot work is refused"]))
def test_what_cannot_work_is_refused(options):
    raises(InputError, Summarize, **options)


def test_what_cannot_be_summarised_is_refused():
    refused(InputError, "max_tokens", Summarize(), "x", max_tokens=0)
    refused(InputError, "text, a message", Summarize(), 42)
    refused(BadMessage, "role", Summarize(), {"content": "no role"})


@TONGUES
def test_a_thousand_messages_take_less_than_a_second(language):
    talk = [user(message.text + f" ({n})") for n, message in enumerate(talk_of_400(language) * 3)][:1_000]
    Summarize()(talk[:50])
    started = time.process_time()
    made = Summarize(max_tokens=500)(talk, previous="")
    assert time.process_time() - started < 2, "0.5 s on a quiet core"
    assert made.tokens <= 500


texts = st.text(max_size=80) | st.sampled_from([*TABLES["some texts"], "a " * 300, "好" * 400])
said = st.builds(user, texts) | st.builds(assistant, texts)
talks = st.lists(said | st.sampled_from(tool("shell", '{"cmd": "ls"}', "a\nb\nerror: no")), max_size=8)


@settings(deadline=None)
@given(talks, st.none() | texts, st.integers(1, 120))
def test_any_input_gives_a_summary_within_its_limits(talk, previous, limit):
    write = Summarize(max_tokens=limit)
    made = write(talk, previous=previous)
    assert made.tokens == COUNTER.count_text(made.text) <= min(limit, made.tokens_before)
    assert write(talk, previous=previous) == made
    assert set(made.sources) <= {message.id for message in talk}
    assert bool(made.text.strip()) or not any(c.isalnum() for m in talk for c in m.search_text) or limit < 10
