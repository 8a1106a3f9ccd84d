"""Statements meet what is known, by example."""

from dataclasses import replace

import pytest
from stating import SCOPE, Known, at, renames, reverts, says_of, states, takes_back
from tables import read_tables

from jiyi.long_term.facts.slots import Names, value_key

TABLES = read_tables(__file__)


@pytest.fixture
def known():
    return Known()


def test_a_new_statement_is_a_fact(known):
    changes = known.take(states("8443", 1, quote="it is 8443", source="m-a"))
    (fact,) = changes.facts
    assert changes.new == (fact.id,)
    assert (fact.scope, fact.sources, fact.speaker, fact.text) == (SCOPE, ("m-a",), "Ana", "it is 8443")
    assert (fact.status, fact.created_at, fact.method) == ("active", at(1), "patterns")


def test_a_correction_says_that_the_old_was_never_true(known):
    known.take(states("8443", 1))
    known.take(says_of("02", "8444", 3, replaces="8443", corrects=True))
    assert known.rows() == [("8443", "superseded"), ("8444", "active")]
    assert known.one("8444").predicate == "port"
    assert [known.value_at(day) for day in (1, 2, 9)] == ["8444"] * 3


def test_a_correction_that_fits_two_things_or_none_is_passed_over(known):
    known.take(states("8443", 1), states("8443", 1, subject="edge-05"))
    for replaces in ("8443", "77"):
        changes = known.take(says_of("", "8444", 3, replaces=replaces))
        assert (changes.facts, changes.passed) == ((), 1)


def test_part_of_the_old_value_finds_it(known):
    known.take(states("May 2027", 1, subject="Hallie's passport", point="runs out"))
    known.take(says_of("Hallie", "May 2026", 2, replaces="2027"))
    assert known.one("May 2026").subject == "Hallie's passport"


def test_a_change_without_a_point_fits_the_one_of_its_shape(known):
    api = {"subject": "ledger-api"}
    known.take(states("SQLAlchemy", 1, point="ORM", **api), states("3 s", 1, point="timeout", **api))
    known.take(says_of("ledger-api", "Tortoise", 2))
    assert known.one("SQLAlchemy").superseded_by == known.one("Tortoise").id
    assert known.one("3 s").status == "active"


def test_for_a_while_only_the_old_value_returns(known):
    known.take(states("half past seven", 1, subject="dinner", point="time"))
    known.take(states("six", 10, subject="dinner", point="time", valid_from=at(14), valid_to=at(28)), now=20)
    usual, while_ = known.one("half past seven"), known.one("six")
    assert (usual.status, usual.superseded_by, while_.status) == ("active", None, "active")
    assert [known.value_at(day) for day in (13, 14)] == ["half past seven", "six"]
    assert [known.value_at(day) for day in (27, 28)] == ["six", "half past seven"]


def test_what_is_said_later_counts_more_than_an_exception(known):
    known.take(states("a", 1), states("b", 2, valid_to=at(20)), states("c", 10))
    assert [known.value_at(day) for day in (1.5, 5, 12, 30)] == ["a", "b", "c", "c"]


def test_an_exception_that_is_over_when_it_arrives_has_expired(known):
    known.take(states("a", 1), states("b", 2, valid_to=at(20)), now=50)
    assert dict(known.rows()) == {"a": "active", "b": "expired"}


def test_taking_back_what_is_named(known):
    known.take(
        states("8443", 1, quote="the port of edge-02 is 8443"),
        states("12", 2, subject="build", point="seat count", quote="seat count is 12"),
        states(
            "CHX-55", 2, subject="charts", point="licence key", quote="the charting licence key is CHX-55"
        ),
    )
    known.take(takes_back("Delete the charting licence key you hold.", 9, erases=True))
    assert known.rows() == [("8443", "active"), ("12", "active"), ("CHX-55", "retracted")]


@pytest.mark.parametrize("quote", ["Forget the bastion-1 shutdown, please.", "把周五的会议那条删掉"])
def test_taking_back_what_is_not_known_changes_nothing(known, quote):
    known.take(states("22022", 1, subject="bastion-1", quote="bastion-1 has port 22022"))
    assert known.take(takes_back(quote, 2)).facts == ()


def test_forget_that_means_the_same_speaker_the_same_session_and_just_now(known):
    known.take(states("8443", 1))
    said = takes_back("forget that", 1.1)
    for other in (replace(said, speaker="Bo"), replace(said, said_at=at(9)), replace(said, said_at=at(0.5))):
        assert known.take(other).facts == ()
    assert known.rows() == [("8443", "active")]


def test_asking_for_a_thing_to_go_takes_its_older_values_along(known):
    for day, value in ((1, "6029"), (2, "7100")):
        known.take(states(value, day, subject="door", point="password", quote=f"door password {value}"))
    known.take(takes_back("delete the door password", 3, erases=True))
    assert known.rows() == [("6029", "retracted"), ("7100", "retracted")]


def test_said_again_after_it_was_taken_back(known):
    known.take(states("8443", 1), takes_back("forget that", 1.1))
    known.take(states("8443", 5))
    assert known.rows() == [("8443", "retracted"), ("8443", "active")]
    known.take(states("8443", 1.05))  # said before it was taken back, arrived late
    assert known.rows() == [("8443", "retracted"), ("8443", "active")]


def test_going_back_to_what_was(known):
    orm = {"subject": "ledger-api", "point": "ORM"}
    known.take(states("SQLAlchemy", 1, **orm), states("Tortoise", 2, **orm))
    known.take(reverts("ledger-api", 3, "SQLAlchemy"))
    before = [("SQLAlchemy", "superseded"), ("Tortoise", "superseded")]
    assert known.rows() == [*before, ("SQLAlchemy", "active")]
    assert [known.value_at(day) for day in (1, 2, 3)] == ["SQLAlchemy", "Tortoise", "SQLAlchemy"]


def test_going_back_without_naming_the_value(known):
    known.take(states("a", 1), states("b", 2), states("c", 3))
    known.take(reverts("edge-02", 4, quote="edge-02 恢复原来的"))
    assert known.rows()[-1] == ("a", "active")
    known.take(reverts("edge-02", 5, quote="edge-02 is back"))
    assert known.rows()[-1] == ("c", "active")


def test_going_back_to_nothing_is_passed_over(known):
    known.take(states("a", 1))
    for subject, value in (("edge-02", "zzz"), ("other", "a"), ("edge-02", "")):
        assert known.take(reverts(subject, 2, value)).passed == 1


def test_what_can_be_true_side_by_side_does_not_supersede(known):
    several = {"likes": "preference", "to-do": "todo", "plans": "plan", "过敏": "preference"}
    for point, category in (several | {"daughter": "relation"}).items():
        known.take(*(states(value, 1, subject="Ana", point=point, category=category) for value in ("x", "y")))
    assert ({fact.status for fact in known.facts.values()}, len(known.facts)) == ({"active"}, 10)


def test_a_favourite_is_one(known):
    for day, value in ((1, "blue"), (2, "green")):
        known.take(states(value, day, subject="Ana", point="favourite colour", category="preference"))
    assert known.rows() == [("blue", "superseded"), ("green", "active")]


def test_disliking_supersedes_liking_the_same(known):
    likes = {"subject": "Ana", "category": "preference"}
    known.take(states("coffee", 1, point="likes", **likes), states("tea", 1, point="喜欢", **likes))
    known.take(states("coffee", 2, point="讨厌", **likes))
    old, *others = sorted((fact.predicate, fact.object, fact.status) for fact in known.facts.values())
    assert old == ("likes", "coffee", "superseded")
    assert others == [("喜欢", "tea", "active"), ("讨厌", "coffee", "active")]


def test_a_thing_keeps_its_points_under_a_new_name(known):
    known.take(states("3 s", 1, subject="order-svc", point="timeout"))
    known.take(renames("order-svc", "trade-core", 2))
    known.take(states("5 s", 3, subject="trade-core", point="超时"))
    assert (known.one("3 s").status, known.one("5 s").status) == ("superseded", "active")


def test_two_names_that_turn_out_to_be_one_thing(known):
    known.take(states("3 s", 1, subject="order-svc"), states("5 s", 3, subject="trade-core"))
    assert {fact.status for fact in known.facts.values()} == {"active"}
    known.take(renames("order-svc", "trade-core", 4))
    assert (known.one("3 s").status, known.one("5 s").status) == ("superseded", "active")


def test_names_in_a_circle():
    known = Known()
    for one, other in (("a1", "b2"), ("b2", "c3"), ("c3", "a1"), ("a1", "a1")):
        known.take(renames(one, other, 1))
    names = Names(known.facts.values())
    assert names.key("a1") == names.key("b2") == names.key("c3") != names.key("d4")
    assert (sorted(names.of("b2")), names.of("d4")) == (["a1", "b2", "c3"], ["d4"])


def test_a_name_taken_back_is_none(known):
    known.take(renames("gizmo", "ci-forge", 1, quote="gizmo becomes ci-forge"))
    known.take(takes_back("forget that", 1.1))
    assert Names(known.facts.values()).of("gizmo") == ["gizmo"]


@pytest.mark.parametrize("table", ["the same values", "other values"])
def test_values_that_are_the_same_and_others(table):
    for one, other in TABLES[table]:
        assert (value_key(one) == value_key(other)) == (table == "the same values"), (one, other)


def test_the_same_source_again_changes_nothing(known):
    statement = states("8443", 1)
    known.take(statement)
    known.take(states("8444", 2))
    assert known.take(statement).facts == ()
    assert known.take(statement).passed == 1
    assert known.rows() == [("8443", "superseded"), ("8444", "active")]


def test_what_was_said_earlier_and_arrives_later_does_not_supersede(known):
    known.take(states("8444", 5))
    known.take(states("8443", 1))
    assert known.rows() == [("8443", "superseded"), ("8444", "active")]
    assert known.one("8443").superseded_by == known.one("8444").id


def test_a_value_between_two_sayings_of_another_parts_them(known):
    known.take(states("a", 1), states("a", 5))
    known.take(states("b", 3))
    assert known.rows() == [("a", "superseded"), ("b", "superseded"), ("a", "active")]
    assert [known.value_at(day) for day in (2, 3.5, 6)] == ["a", "b", "a"]
