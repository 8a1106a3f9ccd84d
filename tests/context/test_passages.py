"""What was said, as a window shows it: passages in the order of time, and what replaced what."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from jiyi.context import Materials, build_window, passages
from jiyi.records import Block, Budget, Message
from jiyi.text import counter_for

COUNTER = counter_for()
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def block(place, text="a remark", *, thread="s", score=1.0, minutes=None, **fields):
    return Block(
        section="recalled",
        text=f"{text} {place}",
        tokens=0,
        source_id=f"{thread}{place}",
        speaker="Ana",
        thread=thread,
        place=place,
        created_at=START + timedelta(minutes=place if minutes is None else minutes),
        score=score,
        **fields,
    )


def window(blocks, budget=2_000, language="en", **parts):
    parts.setdefault("current", Message(role="user", content="What was it?"))
    materials, limit = Materials(blocks=blocks, **parts), Budget(max_input_tokens=budget)
    return build_window(materials, limit, counter=COUNTER, language=language, zone=ZoneInfo("Asia/Shanghai"))


def recalled(made):
    context = next(m["content"] for m in made.messages if "## " in str(m["content"]))
    return context.partition("## Earlier messages\n")[2] or context.partition("## 相关对话\n")[2]


def test_a_passage_ends_with_its_session_and_with_an_hours_pause():
    told = [block(1), block(2), block(5), block(6, minutes=80), block(1, thread="t", minutes=3)]
    found = [[b.source_id for b in some] for some in passages(reversed(told))]
    assert found == [["s1", "s2", "s5"], ["t1"], ["s6"]]
    assert passages([]) == []
    assert [len(some) for some in passages([block(1, thread=""), block(2, thread="")])] == [1, 1]


def test_passages_stand_in_the_order_of_time_with_one_date_each():
    assert recalled(window([block(9, minutes=500, score=9.0), block(1, score=1.0), block(2), block(4)])) == (
        "> [2026-03-01 20:01 · Ana] a remark 1\n"
        "> [Ana] a remark 2\n"
        "> …\n"
        "> [Ana] a remark 4\n"
        "\n"
        "> [2026-03-02 04:20 · Ana] a remark 9"
    )


def test_roles_are_named_in_the_language_of_the_window():
    said = [Block(section="recalled", text="好", tokens=0, source_id=r, speaker=r) for r in ("user", "tool")]
    assert "[用户] 好" in window(said, language="zh").markdown
    assert "[工具] 好" in window(said, language="zh").markdown
    history = [Message(role="user", content="早", name="林若"), Message(role="assistant", content="早。")]
    shown = window([], language="zh", history=history).markdown
    assert "- **用户 林若**: 早" in shown
    assert "- **助手**: 早。" in shown


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_moment_of_the_question_stands_above_what_is_recalled(language):
    english, chinese = "It is Monday, 2026-03-02 07:59", "现在是 2026-03-02 07:59 星期一"
    line = f"{english} (Asia/Shanghai)." if language == "en" else f"{chinese}（Asia/Shanghai）。"
    asked_at = datetime(2026, 3, 1, 23, 59, tzinfo=UTC)
    made = window([block(1)], language=language, asked_at=asked_at)
    assert made.messages[0]["content"].splitlines()[1] == line
    assert len(window([], language=language, asked_at=asked_at).messages) == 1


OLD = block(1, "the port is 8443,", outdated="surely", successor=block(30, "the port is 9443,"))


def test_what_is_outdated_is_followed_by_what_took_its_place_once_and_whole():
    made = window([OLD, block(2)])
    assert recalled(made) == (
        "> [2026-03-01 20:01 · Ana · outdated] the port is 8443, 1\n"
        "> → [2026-03-01 20:30 · Ana] the port is 9443, 30\n"
        "> [Ana] a remark 2"
    )
    first = made.report.included[:3]
    assert [(i.id, i.tokens > 0) for i in first] == [("s1", True), ("s30", True), ("s2", True)]
    assert [b.source_id for b in made.blocks] == ["s1", "s2"]
    assert "8443" in window([OLD, block(30, "the port …", whole=False)]).markdown
    made = window([OLD, block(2, "port 8443,", outdated="surely", successor=OLD.successor)])
    assert made.markdown.count("9443") == 1
    assert made.markdown.count("outdated") == 2


@pytest.mark.parametrize("where", ["recalled", "history", "current"])
def test_what_is_outdated_stays_out_where_its_successor_is_in_the_window(where):
    newer = Message(role="user", content="the port is 9443, 30", id="s30")
    made = {
        "recalled": lambda: window([OLD, block(2), OLD.successor]),
        "history": lambda: window([OLD, block(2)], history=[newer]),
        "current": lambda: window([OLD, block(2)], current=newer),
    }[where]()
    assert "8443" not in made.markdown
    assert made.markdown.count("9443") == 1
    reasons = {i.id: i.reason for i in made.report.left_out}
    assert reasons == {"s1": "outdated; what took its place is in the window"}


def test_what_may_have_changed_is_shown_with_what_may_have_replaced_it():
    unsure = block(1, "the port is 8443,", outdated="maybe", successor=OLD.successor)
    alone, both = window([unsure], language="zh"), window([unsure, OLD.successor], language="zh")
    shown = "[2026-03-01 20:01 · Ana · 可能已变] the port is 8443, 1\n> → [2026-03-01 20:30 · Ana] the"
    assert shown in alone.markdown
    assert "8443" in both.markdown
    assert both.markdown.count("9443") == 1
    assert "→" not in both.markdown


def test_what_passages_save_is_given_to_those_that_wait():
    talk = [block(i, score=1 - i / 100) for i in range(30)]
    apart = [block(i, score=1 - i / 100, minutes=100 * i) for i in range(30)]
    for budget in (200, 300):
        together, alone = window(talk, budget), window(apart, budget)
        assert len(together.blocks) > len(alone.blocks)
        for made in (together, alone):
            assert made.report.tokens <= budget
            listed = {i.id for i in (*made.report.included, *made.report.left_out)}
            assert listed == {b.source_id for b in talk} | {made.report.included[-1].id}
    assert window(talk, 300).messages[0]["content"].count("2026-03-01") == 1


def test_nothing_that_would_fit_stays_out():
    talk = [block(i, score=1 - i / 100) for i in range(30)]
    made = window(talk, 250)
    shown = {b.source_id for b in made.blocks}
    left = [b for b in talk if b.source_id not in shown]
    assert left
    alone = [COUNTER.count_text(f"> [2026-03-01 20:00 · Ana] {b.text}\n\n") for b in left]
    assert made.report.tokens + min(alone) > 250


def told_as_fact(text, source):
    return Block(section="knowledge", kind="fact", text=text, tokens=0, source_id="f1", sources=(source,))


def test_a_fact_is_shown_only_where_its_message_is_not_shown_whole():
    both = window([told_as_fact("we live in Leiden", "s1"), block(1, "we live in Leiden,")])
    assert both.markdown.count("Leiden") == 1
    assert {i.id: i.reason for i in both.report.left_out} == {"f1": "its words stand in the window already"}
    for other in (block(1, "we live …", whole=False), block(2, "we moved,")):
        assert "> we live in Leiden\n" in window([told_as_fact("we live in Leiden", "s1"), other]).markdown
