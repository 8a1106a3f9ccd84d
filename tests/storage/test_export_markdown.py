"""A memory as a text to read."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from samples import ANA, AWKWARD, START, episode, full, item, knowledge, message, summary, task
from tables import read_tables

from jiyi.records import Fact, Scope, Step, ToolCall
from jiyi.storage.transfer.markdown import export_markdown

TABLES = read_tables(__file__)


def written(store, tmp_path, scope=ANA, **options):
    path = tmp_path / "m.md"
    receipt = export_markdown(store, scope, path, **options)
    text = path.read_text("utf-8")
    assert receipt.bytes == path.stat().st_size
    return text, receipt


def headings(text):
    return [line for line in text.splitlines() if line.startswith("#")]


def talk(store):
    call = ToolCall(id="c1", name="shell", arguments='{"cmd": "ls"}')
    store.put([message("later", session="two", at=60)])
    store.put([message("# not a heading\n- nor a list", at=0, pinned=True, name="Ana")])
    store.put([message(None, at=1, role="assistant", tool_calls=(call,))])
    store.put([message("a.txt", at=2, role="tool", tool_call_id="c1")])
    done = {"tool_name": "shell", "result": "x\ny", "status": "completed"}
    step = Step(scope=ANA, task_id="t1", description="look", **done)
    store.put([task("restart *nginx*", id="t1", target="nginx", tags=("web",)), step])
    past = {"outcome": "partial", "outcome_summary": "cleaned", "pinned": True}
    store.put([episode("disk full", steps=(step,), **past)])
    store.put([knowledge("clean the logs", key_points=("first", "second"), confidence=0.75)])
    times = {"valid_from": START, "valid_to": START + timedelta(days=1), "created_at": START}
    port = Fact(scope=ANA, subject="edge-02", predicate="port", object="8443", speaker="Ana", **times)
    store.put([replace(port, status="expired", pinned=True)])
    store.put([item("mountain tea", namespace=("users", "a/b"), value={"# tea": "mountain"})])
    first = summary(None, ["x"], 1, "an older version")
    of_agent = summary(None, scope=Scope(user_id="ana", agent_id="ops", session_id="s"))
    store.put([first, of_agent, summary(first, ["y"], 2, "# disks\nwere full", at=60)])


def test_everything_is_there_in_order(store, tmp_path):
    talk(store)
    text, receipt = written(store, tmp_path)
    one = dict.fromkeys(("task", "episode", "knowledge", "fact", "item"), 1)
    assert receipt.counts == {"message": 4, **one, "summary": 2}
    assert headings(text) == [heading.strip() for heading in TABLES["headings"]]
    for piece in TABLES["pieces"]:
        assert piece in text, piece
    assert "an older version" not in text, "the one that stands says all of it"


def test_in_chinese_where_the_conversation_is(store, tmp_path):
    store.put([message("你好，nginx 又 502 了"), message("好的", at=1)])
    store.put(
        [task("重启 nginx"), Fact(scope=ANA, subject="我", predicate="生日", object="五月", created_at=START)]
    )
    text, _ = written(store, tmp_path)
    assert headings(text)[:3] == ["# ana 的记忆", "## 对话", "### s (2026-03-01 12:00)"]
    assert "### 重启 nginx (进行中, 2026-03-01 12:00)" in text
    assert "- 我 · 生日 · 五月 (有效, 2026-03-01 12:00)" in text
    store.put([summary(None, text="说了 502")])
    assert "## 对话总结\n\n### s (2026-03-01 12:00)\n\n> 说了 502\n" in written(store, tmp_path)[0]
    assert headings(written(store, tmp_path, language="en")[0])[1] == "## Conversations"


def test_dates_are_those_of_the_zone(store, tmp_path):
    store.put([message("hi"), replace(message("end", at=1), created_at=datetime.max.replace(tzinfo=UTC))])
    text, _ = written(store, tmp_path, zone=timezone(timedelta(hours=8)))
    assert "2026-03-01 20:00" in text
    assert "9999-12-31 23:59" in text


def test_an_empty_memory_has_a_title_and_a_session_can_be_shown_alone(store, tmp_path):
    assert written(store, tmp_path)[0] == "# Memory of ana\n"
    talk(store)
    text, receipt = written(store, tmp_path, ANA.in_session("two"))
    assert receipt.total == receipt.counts["message"] == 1
    assert headings(text) == ["# Memory of ana", "## Conversations", "### two (2026-03-01 12:01)"]


@pytest.mark.parametrize("text", AWKWARD.values(), ids=list(AWKWARD))
def test_no_text_breaks_out_of_its_place(store, tmp_path, text):
    store.put(full(text))
    picture = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": "u"}}]
    store.put([message(f"{text}\n# x", session="s2"), replace(message(text, session="s2"), content=picture)])
    store.put([summary(None, text=f"x{text}\n# x")])
    shown, _ = written(store, tmp_path, language="en")
    assert len([h for h in headings(shown) if re.match(r"## ", h)]) == 7
    assert "not text: image\\_url" in shown
