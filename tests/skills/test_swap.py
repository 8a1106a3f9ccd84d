"""A question closes what another one opened where it fits another skill clearly better, and else not."""

from itertools import pairwise

import pytest
from tables import literals, read_tables

from jiyi.embeddings import E5Embedder
from jiyi.records.skill import Skill
from jiyi.skills import MARGIN, Disclosure, Routed, Router, SkillRegistry, Swapped
from jiyi.skills.route import choose_swap
from jiyi.testing import HashEmbedder

TABLES = read_tables(__file__)
CLEAR = TABLES["clear"]  # in the order they are asked: the skill changes nearly every time
CLOSE = TABLES["close"]  # as near to one of the skills as to another, by the words
NEITHER = TABLES["neither"]


@pytest.fixture
def registry(examples):
    return SkillRegistry(examples)


def asked(disclosure, questions):
    """Return what is open after each question."""
    out = []
    for question in questions:
        disclosure.follow(question)
        out.append(disclosure.opened)
    return out


def check_clear(registry, router):
    disclosure = Disclosure(registry, router=router)
    assert asked(disclosure, [question for question, _ in CLEAR]) == [(want,) for _, want in CLEAR]
    for other in registry.names:  # whatever was open before
        for question, want in CLEAR:
            disclosure = Disclosure(registry, router=router)
            disclosure.begin("t", f"/{other}")
            assert disclosure.opened == (other,)
            assert disclosure.follow(question).opened == ((want,) if want != other else ())
            assert disclosure.opened == (want,)


def check_neither(registry, router):
    disclosure = Disclosure(registry, router=router)
    disclosure.follow(CLEAR[0][0])
    assert asked(disclosure, NEITHER) == [("nginx-502",)] * len(NEITHER)


def test_a_question_that_fits_another_skill_clearly_better_swaps(registry):
    check_clear(registry, Router(registry))
    check_neither(registry, Router(registry))


@pytest.mark.slow
def test_the_same_by_words_and_meaning(registry):
    router = Router(registry, E5Embedder())
    check_clear(registry, router)
    check_neither(registry, router)


@pytest.mark.parametrize(("question", "one", "other"), CLOSE)
def test_a_question_near_to_both_keeps_what_is_open(registry, question, one, other):
    for opened in (one, other):
        disclosure = Disclosure(registry)
        disclosure.begin("t", f"/{opened}")
        assert not disclosure.follow(question)
        assert disclosure.opened == (opened,)


def test_close_questions_in_turn_do_not_flutter(registry):
    disclosure = Disclosure(registry)
    disclosure.begin("t", "/nginx-502")
    about = [question for question, one, other in CLOSE if "nginx-502" in (one, other)]
    assert set(asked(disclosure, about * 5)) == {("nginx-502",)}


@pytest.mark.slow
def test_no_question_swaps_there_and_back_by_meaning_either(registry):
    router = Router(registry, E5Embedder())
    for question in [question for question, *_ in CLOSE]:
        after = []
        for opened in registry.names:
            disclosure = Disclosure(registry, router=router)
            disclosure.begin("t", f"/{opened}")
            seen = asked(disclosure, [question] * 3)
            assert len(set(seen)) == 1
            after.append((opened, seen[0][0]))
        gone_to = {now for before, now in after if now != before}
        assert all(now == before for before, now in after if before in gone_to)


def scored(**scores):
    some = [
        Routed(skill=Skill(name=name, description=name, folder="."), score=score, why="words: w")
        for name, score in scores.items()
    ]
    return sorted(some, key=lambda one: -one.score)


@pytest.mark.parametrize(
    ("scores", "opened", "routed", "expected"),
    [
        *literals(TABLES["the margin"]),
        ({"a": 1.0 + MARGIN, "b": 1.0}, ("b",), ("b",), (("a",), ("b",))),
        ({"a": 0.99 + MARGIN, "b": 1.0}, ("b",), ("b",), ((), ())),
    ],
)
def test_the_margin(scores, opened, routed, expected):
    chosen = choose_swap(scored(**scores), opened, routed)
    assert (chosen.opened, chosen.closed) == expected


def test_what_was_opened_by_hand_is_not_closed_by_a_question(registry):
    disclosure = Disclosure(registry)
    disclosure.open("weekly-report")
    assert asked(disclosure, [question for question, _ in CLEAR[:2]]) == [
        ("weekly-report", "nginx-502"),
        ("weekly-report", "code-review"),
    ]
    disclosure.open("code-review")  # the model asks for what routing had opened
    disclosure.follow(CLEAR[0][0])
    assert disclosure.opened == ("weekly-report", "code-review", "nginx-502")


def test_a_question_opens_nothing_where_those_opened_by_hand_fill_the_places(registry):
    disclosure = Disclosure(registry, max_open=1)
    disclosure.open("weekly-report")
    assert not disclosure.follow(CLEAR[0][0])
    assert disclosure.opened == ("weekly-report",)


def test_a_task_that_ends_closes_what_routing_opened_for_it(registry):
    disclosure = Disclosure(registry)
    disclosure.begin("t-1", CLEAR[0][0])
    disclosure.open("weekly-report")
    assert disclosure.end("t-0") == Swapped()
    ended = disclosure.end("t-1")
    assert (ended.closed, ended.summary) == (("nginx-502",), "closed nginx-502: the task ended")
    assert disclosure.opened == ("weekly-report",)
    assert not disclosure.end("t-1")


def test_a_task_that_ends_after_another_began_closes_nothing(registry):
    disclosure = Disclosure(registry)
    disclosure.begin("t-1", CLEAR[0][0])
    disclosure.begin("t-2", CLEAR[1][0])
    assert not disclosure.end("t-1")
    assert disclosure.opened == ("code-review",)


def test_news_are_told_once(registry):
    disclosure = Disclosure(registry)
    disclosure.follow(CLEAR[0][0])
    disclosure.follow(CLEAR[1][0])
    first, second = disclosure.news()
    assert first.summary.startswith("opened nginx-502: the question, words: nginx")
    assert second.summary.startswith("closed nginx-502; opened code-review: the question, words: ")
    assert disclosure.news() == []
    assert all(before != after for before, after in pairwise([first, second]))


def test_a_skill_that_cannot_be_read_changes_nothing(write_skill):
    for name in ("tea", "coffee"):
        write_skill(name, head=f"name: {name}\ndescription: Brews {name} well.")
    registry = SkillRegistry(write_skill("milk", head="name: milk\ndescription: Heats milk.").parent)
    disclosure = Disclosure(registry, router=Router(registry, HashEmbedder()))
    disclosure.follow("brews tea well")
    (registry.get("coffee").folder / "SKILL.md").unlink()
    assert not disclosure.follow("/coffee")
    assert disclosure.opened == ("tea",)
    disclosure.begin("t", "/coffee")
    assert disclosure.opened == ()
