"""Blocks: what recall found, in the words a window shows."""

from datetime import UTC, datetime, timedelta, timezone

from embedders import unreachable
from samples import ANA, episode, knowledge, message

from jiyi.long_term import recall_blocks
from jiyi.records import Query
from jiyi.text import counter_for


def blocks(recall, text, **options):
    chosen = {"counter": counter_for(), "language": "en", "longest": 1000} | options
    return recall_blocks(recall, Query(scope=ANA, text=text), **chosen)


def test_blocks_say_where_they_are_from(store, recall, flush):
    said, past, lesson = store.put(
        [
            message("disk full on web-7", name="Ana"),
            episode("disk alarm", outcome_summary="deleted logs"),
            knowledge("check the disk first", key_points=("df -h",)),
        ]
    )
    flush()
    zone = timezone(timedelta(hours=8))
    found, notes = blocks(recall, "disk", zone=zone)
    by_section = {b.section: b for b in found}
    assert notes == []
    assert by_section["recalled"].text == "[2026-03-01 20:00 · Ana]\ndisk full on web-7"
    assert by_section["recalled"].source_id == said.id
    assert by_section["episodes"].text == "[success] disk alarm -> deleted logs (2026-03-01 20:00)"
    assert by_section["knowledge"].text == "**disks** (2026-03-01 20:00)\ncheck the disk first\n- df -h"
    assert [by_section[s].kind for s in ("episodes", "knowledge")] == ["episode", "knowledge"]
    assert {past.id, lesson.id} < {b.source_id for b in found}
    assert "成功" in {b.section: b for b in blocks(recall, "disk", language="zh")[0]}["episodes"].text


def test_long_records_are_shown_as_the_excerpt_that_serves_the_question(store, recall, flush):
    store.put([message("filler line of a log\n" * 300 + "disk full here\n" + "more of it\n" * 300)])
    flush()
    counter = counter_for()
    ((block,), _) = blocks(recall, "disk", longest=60)
    assert "disk full here" in block.text
    head, _, body = block.text.partition("\n")
    assert counter.count_text(body) <= 60
    assert block.note.startswith("excerpt, ")
    assert head.startswith("[2026")


def test_old_system_prompts_and_the_question_itself_are_not_recalled(store, recall, flush):
    store.put(
        [message("disk rules", role="system", id="sys"), message("disk?", id="q"), message("disk", id="a")]
    )
    flush()
    found, _ = blocks(recall, "disk", without="q")
    assert [b.source_id for b in found] == ["a"]
    assert blocks(recall, "  ") == ([], [])


def test_an_old_system_prompt_comes_in_beside_no_hit(store, recall, flush):
    store.put([message("Greet with: how may I help?", role="system"), message("disk full", id="a", at=1)])
    flush()
    assert [b.source_id for b in blocks(recall, "disk")[0]] == ["a"]


def test_dates_at_the_edge_of_the_calendar_are_shown(store, recall):
    last = datetime.max.replace(tzinfo=UTC)
    store.put([type(message())(role="user", content="disk", scope=message().scope, created_at=last)])
    ((block,), _) = blocks(recall, "disk", zone=timezone(timedelta(hours=8)))
    assert "9999-12-31" in block.text


def test_notes_of_a_failing_embedder_reach_the_window_once(store, recall, embedder):
    store.put([message("disk")])
    embedder.error = unreachable()
    found, notes = blocks(recall, "disk")
    assert len(found) == 1
    assert len(notes) == 1
