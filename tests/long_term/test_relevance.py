"""What serves a question, and what does not: a floor for the window."""

import pytest
from recalling import recalled
from samples import episode, fact, knowledge, message

from jiyi.compression import Compressed
from jiyi.long_term.recall.weights import WEIGHTS
from jiyi.long_term.relevance import relevant
from jiyi.records import Hit, Hits

ABOUT = {"recalled": "the disk of web-7 is full", "fact": "2 TB", "knowledge": "check the disk first"}


@pytest.fixture
def filled(store, keep):
    store.put([message(ABOUT["recalled"], id="m")])
    store.put([fact("disk", "size", "2 TB", id="f"), fact("Mia", "city", "Oslo", id="other-f")])
    store.put([knowledge(ABOUT["knowledge"], id="k"), knowledge("ask Mia", topic="trips", id="other-k")])
    keep([episode("disk alarm", id="e"), episode("booked a table", id="other-e")])


def test_what_shares_no_word_and_no_meaning_with_the_question_is_below_a_floor(filled, recall):
    found = recalled(recall, "which disk is full?", floor=0.5)
    assert {b.source_id for b in found.blocks} == {"m", "f", "k", "e"}
    assert {item.id for item in found.below} == {"other-f", "other-k", "other-e"}
    assert all(item.reason.startswith("below the threshold; relevance 0.") for item in found.below)
    assert found.nothing_relevant is not None
    whole = recalled(recall, "which disk is full?")
    assert (len(whole.blocks), whole.below) == (7, ())


def test_only_what_is_shown_is_compressed(filled, recall):
    given = []

    def compress(text, *, max_tokens=None, query=None):
        given.append(text)
        return Compressed(text=text, sources=(), tokens_before=9, tokens=9, method="none")

    found = recalled(recall, "which disk is full?", floor=0.5, compress=compress)
    assert len(found.below) == 3
    assert sorted(given) == sorted(block.text for block in found.blocks)


def test_what_is_said_around_a_hit_comes_along_whatever_it_says(recall, keep):
    keep([message("the disk is full", id="m"), message("yes, I see", id="next", at=5)])
    found = recalled(recall, "disk", floor=0.5)
    assert ({b.source_id for b in found.blocks}, found.below) == ({"m", "next"}, ())


def test_around_a_weak_hit_nothing_is_shown_where_there_is_probably_no_answer(recall, keep):
    keep([message("the disk is full", id="m"), message("yes, I see", id="next", at=5)])
    for question, shown in {"full disk": {"m", "next"}, "Oslo disk": {"m"}}.items():
        found = recalled(recall, question, floor=0.5)
        assert found.nothing_relevant > 0.5
        assert {b.source_id for b in found.blocks} == shown


def hit(text, score=0.0, **why):
    return Hit(record=message(text), kind="message", score=score, why=why)


def test_more_of_the_words_are_more_likely_and_none_need_meaning():
    question = "how large is the disk of web-7?"
    one, all_of_them = hit("a disk"), hit("the disk of web-7 is not that large")
    hits = one, all_of_them, hit("Oslo"), hit("storage", apart=2.0)
    likely, unlikely = (relevant(Hits(hits, nothing_relevant=nothing), question) for nothing in (0.1, 0.9))
    assert all(0 <= chance <= 1 for chance in (*likely, *unlikely))
    assert likely[1] == 1.0 > likely[0] >= 0.5
    assert unlikely[1] == 1.0 > 0.5 > unlikely[0], "one word of several is no sign of an answer"
    assert unlikely[3] > 0.5 > unlikely[2]


def test_of_many_messages_the_nearer_ones_count_only_where_an_answer_is_likely():
    def relevance(nothing, apart):
        far = (hit(f"remark {i}", score=-20.0, apart=apart * WEIGHTS["apart"]) for i in range(30))
        return relevant(Hits((hit("yes"), *far), nothing_relevant=nothing), "a disk?")[1]

    assert relevance(0.1, 1.2) > 0.5 > max(relevance(0.1, 0.8), relevance(0.9, 1.2))


def test_one_word_of_the_question_counts_in_a_dialogue_only_near_the_best_hit():
    near, far = hit("a disk", score=-7.0, apart=0.0), hit("a disk", score=-9.0, apart=0.0)
    found = Hits((hit("yes"), near, far, hit("a disk", score=-9.0, meaning=0.0)), nothing_relevant=0.1)
    assert [chance > 0.5 for chance in relevant(found, "which disk is full?")] == [True, True, False, True]


def test_messages_near_the_best_count_where_an_answer_is_likely():
    some = (hit("the disk", 5.0), hit("yes", 3.0), hit("no", -9.0))
    likely = relevant(Hits(some, nothing_relevant=0.1), "which disk?")
    unlikely = relevant(Hits(some, nothing_relevant=0.9), "which disk?")
    assert likely[1] > 0.5 > likely[2]
    assert unlikely[1] < 0.5
    assert relevant(Hits(()), "which disk?") == []
