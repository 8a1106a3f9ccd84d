"""Talk: what was said around the best hits comes into the window with them, and in short."""

from samples import ANA, message

from jiyi.long_term import recall_blocks
from jiyi.records import Query
from jiyi.text import counter_for


def said(store, texts, *, step=60):
    return store.put([message(text, at=i * step, name="Ana") for i, text in enumerate(texts)])


def blocks(recall, text, **options):
    chosen = {"counter": counter_for(), "language": "en", "longest": 1000} | options
    found, _ = recall_blocks(recall, Query(scope=ANA, text=text), **chosen)
    return found


def test_a_message_next_to_two_hits_is_worth_more_than_one_far_from_them(store, recall):
    texts = ["disk full", "yes", "disk empty", *[f"remark {i}" for i in range(8)]]
    kept = said(store, texts)
    score = {b.source_id: b.score for b in blocks(recall, "disk")}
    assert score[kept[0].id] > score[kept[1].id] > score[kept[6].id]


def test_nothing_is_brought_from_far_away_or_from_another_session(store, recall):
    kept = said(store, ["disk full", *[f"remark {i}" for i in range(40)]])
    shown = {b.source_id for b in blocks(recall, "disk")}
    assert {kept[0].id, kept[1].id, kept[10].id} <= shown
    assert kept[30].id not in shown


def test_talk_ends_where_a_window_would_be_full(store, recall):
    said(store, ["disk full", *[f"remark {i}" for i in range(10)]])
    assert len(blocks(recall, "disk", longest=1)) < len(blocks(recall, "disk"))


def test_a_message_soon_behind_another_has_its_words_in_short(store, recall):
    kept = said(store, ["disk full", "which one"])
    found = {b.source_id: b for b in blocks(recall, "disk")}
    assert found[kept[0].id].follows == ""
    assert found[kept[1].id].follows == "[Ana] which one"
    assert found[kept[1].id].text == "[2026-03-01 12:01 · Ana]\nwhich one"


def test_a_message_long_after_another_keeps_its_date(store, recall):
    kept = said(store, ["disk full", "which one"], step=3600)
    found = {b.source_id: b for b in blocks(recall, "disk")}
    assert found[kept[1].id].follows == ""


def test_of_two_equal_hits_the_shorter_goes_in_first(store, recall):
    long, short = store.put(
        [
            message("disk " + "and more of it " * 40, session="one"),
            message("disk is full", session="two"),
        ]
    )
    found = blocks(recall, "disk")
    score = {b.source_id: b.score for b in found}
    assert score[short.id] > score[long.id]
