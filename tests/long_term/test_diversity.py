"""Repeats stand last, nothing is dropped, and the rest keeps its order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import episode, knowledge, message

from jiyi.long_term.recall.ranking import repeats_last

records = st.lists(
    st.builds(
        lambda text, name, make: make(text, name=name) if make is message else make(text),
        st.sampled_from(["disk full", "Disk  full", "disk\nFULL ", "disk not full", "磁盘满了", ""]),
        st.sampled_from([None, "Ana", "Ben"]),
        st.sampled_from([message, message, knowledge, episode]),
    ),
    max_size=12,
)


@given(records)
def test_each_record_keeps_a_place_and_those_that_repeat_nothing_their_order(found):
    order = repeats_last(found)
    assert sorted(order) == list(range(len(found)))
    seen, first, again = set(), [], []
    for place, record in enumerate(found):
        who = getattr(record, "name", None) or getattr(record, "role", None)
        said = (" ".join(record.search_text.lower().split()), who)
        (again if said in seen else first).append(place)
        seen.add(said)
    assert order == first + again


@pytest.mark.parametrize("again", ["disk full", "Disk FULL", " disk\n\tfull ", "DISK full"])
def test_a_repeat_stands_behind_all_others(again):
    found = [message("disk full"), message(again), message("the disk is full"), message("disk full!")]
    assert repeats_last(found) == [0, 2, 3, 1]


def test_the_same_words_of_another_one_are_no_repeat():
    yes = [
        message("yes", name="Ana"),
        message("yes", name="Ben"),
        message("yes"),
        message("yes", role="tool"),
    ]
    assert repeats_last(yes) == [0, 1, 2, 3]
    assert repeats_last([*yes, message("Yes", name="Ben")]) == [0, 1, 2, 3, 4]
    assert repeats_last([yes[0], message("YES", name="Ana"), *yes[1:]]) == [0, 2, 3, 4, 1]


def test_several_repeats_keep_their_order():
    found = [message(text) for text in ("a", "b", "a", "b", "c", "a")]
    assert repeats_last(found) == [0, 1, 4, 2, 3, 5]
    assert repeats_last([]) == []
