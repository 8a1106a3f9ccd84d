"""Facts that newer ones take the place of by what both say: who may end what, and how often it is right."""

from dataclasses import replace
from datetime import timedelta

import pytest
from changes import CHANGES, LOOK_ALIKES
from samples import START, message

from jiyi.long_term import FactMemory, Indexer, Succession
from jiyi.long_term.facts import succession
from jiyi.long_term.forget_gate.rules import FactRule
from jiyi.records import Query, Scope

ANA = Scope(user_id="ana")
DAY = 86_400
ENDED, MISTAKEN = 0.4, 0.5  # of changes, of what only looks like one: superseded or unsure


@pytest.fixture
def made(store, vectors, embedder):
    return Succession(store, vectors)


@pytest.fixture
def facts(store, made):
    return FactMemory(store, succession=made, clock=lambda: START + timedelta(days=400))


@pytest.fixture
def flush(vectors, embedder, made):
    return Indexer(vectors, embedder, after_embedding=made.settle).flush


@pytest.fixture
def say(store, facts):
    def say(text, day, *, user="ana", **fields):
        said = message(text, at=day * DAY, user=user, **{"session": f"s{day}", "name": "Ana"} | fields)
        with store.transaction():
            facts.learn(store.put([said]))

    return say


@pytest.fixture
def certain(monkeypatch):
    """Judge every pair that is compared with one probability."""

    def certain(logit):
        monkeypatch.setattr(succession, "FACTS", {"constant": logit})

    return certain


def told(facts, *status):
    return [fact.text for fact in facts.facts(ANA, status=status or None)]


STILL, NEWER = "dinner is on the table by seven", "the kids eat at half past seven"


@pytest.fixture
def both(say, certain):
    """Say both, of which the newer is sure to take the place of the other."""
    certain(9)
    say(STILL, 1)
    say(NEWER, 2)


@pytest.mark.usefixtures("both")
def test_what_is_sure_is_superseded_and_linked_both_ways(facts, flush):
    assert told(facts) == [STILL, NEWER], "saving compares nothing"
    flush()
    (old,), (new,) = facts.facts(ANA, status="superseded"), facts.facts(ANA)
    assert (old.text, new.text) == (STILL, NEWER)
    assert (old.superseded_by, new.supersedes, old.valid_to) == (new.id, old.id, new.created_at)
    assert [fact.text for fact in facts.facts(ANA, as_of=START + timedelta(days=1, hours=1))] == [STILL]
    flush()
    assert facts.facts(ANA, status="superseded") == [old]


def test_a_fact_that_changes_while_it_is_compared_is_left_as_it_is(both, store, facts, flush, monkeypatch):
    compare = succession.compare_fact

    def slow(*given):
        found = compare(*given)
        store.put([replace(fact, status="retracted") for fact in facts.facts(ANA) if fact.text == STILL])
        return found

    monkeypatch.setattr(succession, "compare_fact", slow)
    flush()
    assert (told(facts), told(facts, "superseded")) == ([NEWER], [])


def test_what_a_fact_is_compared_with_is_read_in_no_transaction(both, database, vectors, flush, monkeypatch):
    """Inside one, nothing of the index is kept: each question reads all that the user has."""
    inside = []

    def noted(verb):
        def asked(*given, **named):
            with database.read() as db:
                inside.append(db.in_transaction)
            return verb(*given, **named)

        return asked

    monkeypatch.setattr(vectors, "read", noted(vectors.read))
    monkeypatch.setattr(vectors, "nearest", noted(vectors.nearest))
    flush()
    assert len(inside) > 2
    assert not any(inside)


def test_what_is_likely_is_unsure_until_it_is_said_again(say, facts, flush, certain):
    certain(0.5)
    say(STILL, 1)
    say(NEWER, 2)
    flush()
    (old,) = facts.facts(ANA, status="unsure")
    (new,) = facts.facts(ANA)
    assert (old.text, old.superseded_by, new.supersedes, old.valid_to) == (STILL, new.id, None, None)
    assert old in facts.history(ANA, old.subject)
    assert FactRule().reason(old, START + timedelta(days=4000)) is None
    say(STILL, 3)
    assert STILL in told(facts)


@pytest.mark.parametrize("other", [{"name": "Ben"}, {"name": "bot", "role": "assistant"}], ids=str)
def test_nobody_ends_what_somebody_else_said(say, facts, flush, certain, other):
    certain(9)
    say("edge-02's port is 8443", 1)
    say("the deploy port for edge-02 traffic is 9000", 2, **other)
    flush()
    assert told(facts, "superseded") == []
    assert "edge-02's port is 8443" in told(facts, "active", "unsure")


@pytest.mark.parametrize(
    "said",
    [
        (STILL, "always answer in German", "always answer in German please"),
        (STILL, "on June 3 2030 we upgrade prod", "on June 3 2030 we upgrade prod please"),
        ("I'm on metformin", "I also take ramipril now"),
    ],
)
def test_rules_plans_and_what_may_hold_together_end_nothing(say, facts, flush, certain, said):
    certain(9)
    for day, text in enumerate(said, 1):
        say(text, day)
    flush()
    assert told(facts, "superseded", "unsure") == []


def test_users_do_not_meet(say, facts, flush, certain):
    certain(9)
    say(STILL, 1)
    say(NEWER, 2, user="ben")
    flush()
    assert told(facts) == [STILL]


def test_said_again_after_its_end_it_begins_again(say, facts, flush, certain):
    certain(9)
    say("my rent is 950 a month", 1)
    say("they take 1,020 from me now", 2)
    flush()
    assert told(facts, "superseded") == ["my rent is 950 a month"]
    certain(-9)
    say("my rent is 950 a month", 3)
    assert len(facts.facts(ANA, status="superseded")) == 1
    assert "my rent is 950 a month" in told(facts)


@pytest.mark.parametrize("logit", [9, 0.5])
def test_what_was_ended_holds_again_when_the_newer_one_is_forgotten(certain, memory, logit):
    certain(logit)
    memory.save_message("s", role="user", content=STILL, created_at=START)
    newer = memory.save_message("s", role="user", content=NEWER, created_at=START + timedelta(days=1))
    memory.flush()
    assert [fact.text for fact in memory.facts()] == [NEWER]
    memory.forget(ids=[newer.id])
    assert [(fact.text, fact.superseded_by) for fact in memory.facts()] == [(STILL, None)]


@pytest.fixture
def ended(store, vectors, model, made, facts):
    """Tell pairs of statements, each to a user of his own; say of those that were read if the first ended."""

    def tell(pairs):
        for number, (first, second, _) in enumerate(pairs):
            for day, text in ((0, first), (20, second)):
                said = {"session": f"s{day}", "name": "Ana", "user": f"u{number}"}
                with store.transaction():
                    facts.learn(store.put([message(text, at=day * DAY, **said)]))
        Indexer(vectors, model, after_embedding=made.settle).flush()
        for number, (first, second, _) in enumerate(pairs):
            known = store.find(Query(scope=Scope(user_id=f"u{number}"), kinds=("fact",), limit=100))
            old = [fact for fact in known if fact.created_at == START]
            new = [fact for fact in known if fact.created_at > START]
            if old and new:
                yield (first, second), all(fact.status != "active" for fact in old)

    return tell


@pytest.mark.slow
@pytest.mark.parametrize("tongue", CHANGES)
def test_changes_are_seen_and_look_alikes_left(ended, tongue):
    seen = list(ended([*CHANGES[tongue], *LOOK_ALIKES[tongue]]))
    changes = {pair[:2] for pair in CHANGES[tongue]}
    right = [is_ for pair, is_ in seen if pair in changes]
    wrong = [is_ for pair, is_ in seen if pair not in changes]
    assert len(right) >= 6
    assert sum(right) >= ENDED * len(right), (sum(right), len(right))
    assert sum(wrong) <= MISTAKEN * len(wrong), (sum(wrong), len(wrong))
