"""Talk: what was said around the best hits comes into the window with them, and in short."""

from recalling import recalled
from samples import message


def said(store, texts, *, step=60):
    return store.put([message(text, at=i * step, name="Ana") for i, text in enumerate(texts)])


def test_a_message_next_to_two_hits_is_worth_more_than_one_far_from_them(store, recall):
    kept = said(store, ["disk full", "yes", "disk empty", *[f"remark {i}" for i in range(8)]])
    score = {b.source_id: b.score for b in recalled(recall, "disk").blocks}
    assert score[kept[0].id] > score[kept[1].id] > score[kept[6].id]


def test_nothing_is_brought_from_far_away_or_from_another_session(store, recall):
    kept = said(store, ["disk full", *[f"remark {i}" for i in range(40)]])
    shown = {b.source_id for b in recalled(recall, "disk").blocks}
    assert {kept[0].id, kept[1].id, kept[10].id} <= shown
    assert kept[30].id not in shown


def test_what_stands_only_around_a_weak_hit_is_left_out(store, recall, keep):
    question = "which disk of web-7 in rack nine is full since Monday?"
    strong = said(store, ["ok", f"well, {question}", "thanks"])
    weak = store.put([message(text, session="trip", at=i) for i, text in enumerate(["Monday", "lunch?"])])
    keep([message(f"remark {i}", session=f"other-{i}") for i in range(150)])
    shown = {b.source_id for b in recalled(recall, question, floor=0.5).blocks}
    assert {m.id for m in (*strong[1:], weak[0])} <= shown
    assert weak[1].id not in shown


def test_talk_ends_where_a_window_would_be_full(store, recall):
    remarks = [f"remark {i}" for i in range(20)]
    said(store, ["disk full", *remarks, "disk empty", *remarks])
    assert len(recalled(recall, "disk", max_tokens=1).blocks) < len(recalled(recall, "disk").blocks)


def test_of_two_equal_hits_the_shorter_goes_in_first(store, recall):
    texts = ("disk is full " + "and more of it " * 40, "disk is full")
    long, short = store.put([message(text, session=f"s{n}") for n, text in enumerate(texts)])
    score = {b.source_id: b.score for b in recalled(recall, "disk").blocks}
    assert score[short.id] > score[long.id]
