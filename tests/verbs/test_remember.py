"""What is told to remember is kept whole: searchable, forgettable, shown once, whatever is read from it."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from tables import read_tables

from jiyi.errors import BadQuery, NaiveDatetime

TABLES = read_tables(__file__)
START = datetime(2026, 1, 5, 9, tzinfo=UTC)  # of the clock
BOTH = "The port of api is 8080, and the admin password is swordfish"


@pytest.mark.parametrize(("text", "words"), TABLES["texts and their words"])
def test_every_word_is_found_and_can_be_forgotten(memory, text, words):
    learned = memory.remember(text)
    whole = memory.get(learned.kept)
    assert whole.text == text
    assert (whole.method, whole.confidence) == ("said", 0.9)
    assert all(fact.text for fact in learned.facts)
    assert {fact.id for fact in learned.facts} == set(learned.new)
    for word in words.split():
        assert learned.kept in {hit.id for hit in memory.search(word, kinds="fact")}, word
        assert learned.kept in {item.id for item in memory.forget(word, dry_run=True).items}, word
    memory.forget(ids=[fact.id for fact in learned.facts])
    assert memory.facts() == []


def test_the_receipt_says_what_was_read_beside_the_whole(memory):
    learned = memory.remember(BOTH)
    read = [fact for fact in learned.facts if fact.id != learned.kept]
    assert ("api", "port", "8080", "The port of api is 8080") in {
        (fact.subject, fact.predicate, fact.object, fact.text) for fact in read
    }
    assert memory.get(learned.kept).category == "note"
    assert "swordfish" in memory.get(learned.kept).object


def test_a_fact_that_has_every_word_needs_no_note(memory):
    learned = memory.remember("I prefer tea", speaker="Ana")
    (fact,) = learned.facts
    assert (fact.id, fact.category, fact.text) == (learned.kept, "preference", "I prefer tea")
    again = memory.remember("I prefer tea", speaker="Ana")
    assert (again.kept, again.new) == (fact.id, ())


def test_parts_are_kept_as_they_are(memory):
    learned = memory.remember(subject="wifi", predicate="password", object="Hunter2")
    (fact,) = learned.facts
    assert (fact.id, fact.text) == (learned.kept, "wifi password Hunter2")
    other = memory.remember(subject="wifi", predicate="password", object="hunter2")
    assert memory.get(other.kept).text == "wifi password hunter2", "not the same password"
    assert memory.get(fact.id).object == "Hunter2"


def test_the_same_text_is_kept_once_and_another_beside_it(memory, clock):
    first = memory.remember("The cat is called Tofu")
    for number in range(12):
        clock.forward(minutes=1)
        memory.remember(f"shelf {number} holds paint")
    again = memory.remember("The cat is called Tofu")
    assert (again.kept, again.reinforced) == (first.kept, (first.kept,))
    assert memory.get(first.kept).confidence > 0.9
    assert memory.remember("the cat is called tofu").kept != first.kept
    assert len(memory.facts(status="active")) == 14


def test_a_category_does_not_let_one_text_take_the_place_of_another(memory):
    one = memory.remember("the spare key hangs in the shed", category="profile")
    memory.remember("the shed needs a new roof", category="profile")
    assert (memory.get(one.kept).status, memory.get(one.kept).category) == ("active", "profile")


def test_a_window_shows_the_words_once_and_what_was_read_may_change_while_the_rest_stays(memory, clock):
    learned = memory.remember(BOTH)
    clock.forward(days=1)
    memory.flush()
    shown = str(memory.build_context("s", "api port and admin password?").messages)
    assert shown.count("8080") == 1
    assert shown.count("swordfish") == 1
    memory.remember("The port of api is 9090")
    assert [fact.object for fact in memory.facts("api")] == ["9090"]
    assert memory.get(learned.kept).status == "active"


REFUSED = [
    *map(json.loads, TABLES["what cannot be kept"]),
    *({"text": b"port"}, {"text": "x" * 1_000_001}),
    {"subject": "a", "predicate": "b", "object": "字" * 1_000_001},
    {"text": "a", "valid_from": START, "valid_to": START - timedelta(days=1)},
]
NAIVE = {"text": "a", "valid_to": datetime(2026, 1, 1)}  # noqa: DTZ001


@pytest.mark.parametrize(("given", "error"), [*((g, BadQuery) for g in REFUSED), (NAIVE, NaiveDatetime)])
def test_what_cannot_be_kept_is_refused_and_nothing_is_written(memory, given, error):
    with pytest.raises(error) as caught:
        memory.remember(**given)
    assert len(str(caught.value)) < 300
    assert memory.facts() == []


def test_a_long_text_is_kept_to_its_end(open_memory, place):
    memory = open_memory(place)
    text = "The port of api is 8080. " + "filler 填充 " * 9_000 + "the last word is zebra."
    learned = memory.remember(text)
    assert memory.get(learned.kept).text == text
    assert memory.remember(text).reinforced[-1] == learned.kept
    assert memory.search("zebra", kinds="fact")[0].id == learned.kept
