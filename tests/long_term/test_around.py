"""What stands around a row: turns, borrowed words, sessions."""

import numpy as np
import pytest
from candidate_tables import Row, table, tables
from hypothesis import given
from hypothesis import strategies as st

from jiyi.long_term.recall.features import borrow_words, neighbour_values, session_scores, turn_taking

TURNS = [Row(speaker=name) for name in ("Ana", "Ben", "Ana", "Ben")]
NOTES = [Row(speaker="Ana", session=1) for _ in range(3)]


def test_turns_are_the_share_of_neighbours_that_another_one_spoke():
    assert turn_taking(table(*TURNS)).tolist() == [1, 1, 1, 1]
    assert turn_taking(table(*NOTES)).tolist() == [0, 0, 0]
    assert turn_taking(table(*TURNS, *NOTES)).tolist() == [1, 1, 1, 1, 0, 0, 0]
    mixed = [Row(speaker=name) for name in ("Ana", "Ana", "Ben", "Ben", "Ana")]
    assert turn_taking(table(*mixed)).tolist() == [0.5] * 5
    alone = [Row(session=-1, kind="knowledge", speaker=None), Row(session=5), Row(session=6, speaker="Ben")]
    assert turn_taking(table(*alone)).tolist() == [0, 0, 0]
    assert turn_taking(table(*alone, *TURNS)).tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert turn_taking(table(*TURNS, alone[0])).tolist() == [1, 1, 1, 1, 0]


def test_shifted_brings_the_value_of_the_neighbour():
    found = table(*TURNS, Row(session=-1, kind="episode"))
    values = np.array([1, 2, 3, 4, 5], np.float32)
    assert neighbour_values(values, found.previous).tolist() == [0, 1, 2, 3, 0]
    assert neighbour_values(values, found.following).tolist() == [2, 3, 4, 0, 0]


def lend(*words, speakers=("Ana", "Ben") * 4):
    """Return what a talk, each row with so much of one word, has of it with what is borrowed."""
    said = [Row(words=(word,), speaker=name) for word, name in zip(words, speakers, strict=False)]
    found = table(*said, terms=("disk",))
    return borrow_words(found.words, found, turn_taking(found))[:, 0]


def test_words_are_lent_two_turns_each_way_and_less_the_further():
    got = lend(0, 0, 0, 0.6, 0, 0, 0)
    assert (got[3], got[[0, 6]].tolist()) == (pytest.approx(0.6), [0, 0])
    assert 0 < got[5] < got[4] < 0.6, "the turns after it borrow from before"
    assert 0 < got[1] < got[2] < 0.6, "the turns before it borrow from after it"
    assert got[2] < got[4], "an answer borrows from its question rather than the other way round"


def test_notes_of_one_person_and_other_sessions_lend_nothing():
    assert lend(0, 0.5, 0, speakers=["Ana"] * 3).tolist() == [0, 0.5, 0]
    assert 0 < lend(0, 0.5, 0, speakers=["Ana", "Ana", "Ben"])[0] < lend(0, 0.5, 0)[0]
    found = table(Row(words=(0.5,)), Row(words=(0,), session=1, speaker="Ben"), Row(session=-1))
    assert borrow_words(found.words, found, np.ones(3, np.float32))[:, 0].tolist() == [0.5, 0, 0]


def test_the_best_offer_counts_and_offers_do_not_add_up():
    assert lend(0.6, 0, 0.6)[1] == lend(0.6, 0, 0)[1]
    assert lend(0.6, 0.59, 0.6)[1] == pytest.approx(0.59)


def naive_borrowed(found, dialogue):
    """Walk the links one by one."""
    best = np.minimum(found.words, np.float32(0.7)).astype(np.float64)
    lent = best.copy()
    for row in range(len(found)):
        for links, shares in ((found.previous, (0.7, 0.4)), (found.following, (0.5, 0.3))):
            place = row
            for share in shares:
                place = links[place] if place >= 0 else -1
                if place >= 0:
                    best[row] = np.maximum(best[row], lent[place] * share * dialogue[row])
    return best


@given(found=tables())
def test_borrowing_is_what_walking_the_links_gives(found):
    dialogue = turn_taking(found)
    assert ((dialogue >= 0) & (dialogue <= 1)).all()
    got = borrow_words(found.words, found, dialogue)
    assert got == pytest.approx(naive_borrowed(found, dialogue), abs=1e-6)
    assert (got <= max(found.words.max(initial=0), 0) + 1e-6).all(), "nobody lends more than there is"


def naive_prior(scores, found):
    best = (np.sort(scores[found.session == session])[-5:] for session in found.session)
    return [sum(mine) / 5 if session >= 0 else 0 for session, mine in zip(found.session, best, strict=True)]


@pytest.mark.slow
@given(found=tables(most=20), data=st.data())
def test_a_session_is_worth_the_mean_of_its_five_best_rows(found, data):
    some = st.lists(st.floats(-50, 50, width=32), min_size=len(found), max_size=len(found))
    scores = np.array(data.draw(some), np.float32)
    assert session_scores(scores, found) == pytest.approx(np.array(naive_prior(scores, found)), abs=1e-4)


def test_one_good_row_is_less_than_five():
    found = table(*[Row()] * 5, *[Row(session=1)] * 2, Row(session=-1))
    scores = np.array([2, 2, 2, 2, 2, 2, 2, 2], np.float32)
    assert session_scores(scores, found) == pytest.approx([2] * 5 + [0.8] * 2 + [0])
    nowhere = table(Row(session=-1, kind="episode"), Row(session=-1, kind="knowledge"))
    assert session_scores(scores[:2], nowhere).tolist() == [0, 0]
