"""What the gate lets go and what it keeps, on a real file."""

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from refusing import refused
from samples import ANA, BEN, START, episode, fact, knowledge, message, task

from jiyi.errors import InputError
from jiyi.long_term.forget_gate.gate import SHOWN, ForgetGate, with_tasks
from jiyi.long_term.forget_gate.rules import ForgetRule, MessageRule
from jiyi.records import Query, Scope, Step
from jiyi.storage import Trash
from jiyi.testing import ManualClock

DAY = timedelta(days=1)
SMALL = ForgetRule(max_episodes=3)
KINDS = ("message", "episode", "knowledge", "fact", "task", "step")


@dataclass
class Gate:
    """A gate to be made with other options, and short names for what lies where."""

    store: object
    trash: object
    clock: ManualClock

    def run(self, scope=ANA, *, dry_run=False, progress=None, **options):
        gate = ForgetGate(self.store, self.trash, clock=self.clock, **options)
        return gate.run(scope, dry_run=dry_run, progress=progress)

    def ids(self, kind="episode", scope=ANA):
        return {r.id for r in self.store.find(Query(scope=scope, kinds=(kind,), limit=10_000))}

    def in_trash(self, scope=ANA):
        found = self.trash.discarded(Query(scope=scope, kinds=KINDS[:5], limit=10_000))
        return {(entry.kind, entry.record.id): entry.reason for entry in found}


@pytest.fixture
def gate(store, database):
    return Gate(store, Trash(database), ManualClock(START))


def failed(id_, days=0, **fields):
    """An episode that sinks below the threshold 60 days after it was made."""
    return episode(id=id_, outcome="failed", at=days * 86_400, **fields)


def test_what_is_worth_too_little_goes_and_the_rest_is_recomputed(gate):
    gate.store.put([failed("old"), failed("new", days=50), episode(id="good"), failed("mine", user="ben")])
    gate.clock.forward(days=61)
    receipt = gate.run()
    assert (gate.ids(), gate.ids(scope=BEN)) == ({"new", "good"}, {"mine"})
    assert gate.in_trash() == {("episode", "old"): "importance below 0.25"}
    assert receipt.discarded == {"episode": {"importance below 0.25": 1}}
    assert (receipt.recomputed, receipt.kept["episode"], receipt.total) == (3, 2, 1)
    assert (receipt.scope, receipt.at, receipt.dry_run, receipt.erased) == (ANA, gate.clock(), False, 0)
    assert receipt.seconds > 0
    (item,) = receipt.items
    assert (item.kind, item.id, item.text, item.created_at) == ("episode", "old", "the disk was full", START)
    assert item.importance == pytest.approx(0.45 - 0.1 * 61 / 30)
    good, new = gate.store.find(Query(scope=ANA, kinds=("episode",)))
    assert good.importance == pytest.approx(0.6 - 0.1 * 61 / 30)
    assert new.importance == pytest.approx(0.45 - 0.1 * 11 / 30)
    (gone,) = gate.trash.discarded(Query(scope=ANA, kinds=("episode",)))
    assert gone.record.importance == pytest.approx(item.importance)


def rule_of(importance):
    """Return a rule that gives one importance to all."""
    return type("Own", (ForgetRule,), {"importance": lambda self, record, now: importance})()


@pytest.mark.parametrize(("given", "stored"), [(7, 1.0), (-7, 0.0)])
def test_importance_is_kept_between_0_and_1(gate, given, stored):
    gate.store.put([episode(id="e")])
    gate.run(rule=rule_of(given))
    assert gate.store.find(Query(scope=ANA, kinds=("episode",)))[0].importance == stored


def test_a_rule_that_gives_no_number_is_told_so_and_changes_nothing(gate):
    gate.store.put([failed("old")])
    gate.clock.forward(days=99)
    with pytest.raises(InputError, match=r"'old' the importance nan; it must give a number from 0 to 1"):
        gate.run(rule=rule_of(float("nan")))
    assert gate.ids() == {"old"}


def test_above_the_limit_the_least_important_go_and_of_equals_the_oldest(gate):
    gate.store.put([episode(id="failed", outcome="failed", at=5), episode(id="third", at=1)])
    gate.store.put([episode(id="first"), episode(id="second"), episode(id="alert", trigger_type="alert")])
    gate.store.put([episode(id="recalled", access_count=1)])
    receipt = gate.run(rule=SMALL)
    assert gate.ids() == {"third", "alert", "recalled"}
    assert receipt.discarded == {"episode": {"more than 3 episodes": 3}}
    assert {item.id for item in receipt.items} == {"first", "second", "failed"}


def test_of_quite_equal_ones_only_as_many_go_as_are_too_many(gate):
    gate.store.put([episode(id=f"e{n}") for n in range(10)])
    assert (gate.run(rule=SMALL, batch=2).kept["episode"], gate.ids()) == (3, {"e7", "e8", "e9"})


def test_pinned_ones_count_but_never_go(gate):
    gate.store.put([episode(id=f"p{n}", outcome="failed", pinned=True) for n in range(4)])
    gate.store.put([episode(id="free")])
    assert gate.run(rule=SMALL).discarded == {"episode": {"more than 3 episodes": 1}}
    assert gate.ids() == {"p0", "p1", "p2", "p3"}


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 500])
def test_batches_make_no_difference(gate, batch):
    gate.store.put([failed(f"old{n}", days=n) for n in range(7)] + [episode(id=f"e{n}") for n in range(7)])
    gate.clock.forward(days=63)
    seen = []
    receipt = gate.run(rule=SMALL, batch=batch, progress=seen.append)
    assert receipt.discarded["episode"] == {"importance below 0.25": 3, "more than 3 episodes": 8}
    assert (gate.ids(), seen) == ({"e4", "e5", "e6"}, sorted(seen))
    assert seen[-1] >= 14


def test_its_task_goes_with_an_episode_and_comes_back_with_it(gate):
    other, job = task(id="other"), task(id="job", status="completed", outcome="failed")
    step = Step(scope=job.scope, task_id="job", description="try", id="step", seq=0)
    gate.store.put([other, job, step, failed("e", task_id="job", steps=(step,))])
    gate.clock.forward(days=61)
    receipt = gate.run()
    assert receipt.discarded == {kind: {"importance below 0.25": 1} for kind in ("episode", "task")}
    assert receipt.kept["task"] == 1
    assert (gate.ids("task"), gate.ids("step")) == ({"other"}, set())
    assert gate.in_trash() == dict.fromkeys([("episode", "e"), ("task", "job")], "importance below 0.25")
    lying = gate.trash.discarded(Query(scope=ANA, kinds=("episode",)))
    back = gate.trash.restore(ANA, with_tasks([entry.record for entry in lying]))
    assert {r.id for r in back} == {"e", "job"}
    (restored,) = gate.store.find(Query(scope=ANA, kinds=("task",), ids=("job",)))
    assert (restored.steps, gate.in_trash()) == ((step,), {})


def test_other_kinds_go_by_their_own_rules(gate):
    gate.store.put([knowledge(id="k1", confidence=0.5), knowledge(id="k2", confidence=0.9)])
    gate.store.put([knowledge(id="k3", confidence=0.5, pinned=True), message("hello", id="m")])
    gate.store.put([fact(id="f1"), fact(id="f2", predicate="port", status="superseded")])
    gate.store.put([fact(id="f3", predicate="name", status="retracted", pinned=True)])
    gate.clock.forward(days=400)
    receipt = gate.run(batch=1)
    assert receipt.discarded["knowledge"] == {"confidence below 0.6 and unused for 180 days": 1}
    assert (receipt.discarded["fact"], receipt.total) == ({"superseded for 365 days": 1}, 2)
    assert (gate.ids("knowledge"), gate.ids("fact")) == ({"k2", "k3"}, {"f1", "f3"})
    assert gate.ids("message") == {"m"}
    assert {item.id: item.importance for item in receipt.items} == {"k1": None, "f2": None}


def test_a_kind_without_a_rule_is_left_alone(gate):
    gate.store.put([knowledge(confidence=0), fact(status="retracted")])
    gate.clock.forward(days=9_999)
    assert gate.run(others=()).total == 0


class TestMessages:
    RULE = (MessageRule(max_age=100 * DAY),)

    def test_old_ones_go_but_for_those_pinned(self, gate):
        kept = [message("b", id="b", pinned=True), message("c", id="c", at=9e6)]
        gate.store.put([message("a", id="a"), *kept])
        gate.clock.forward(days=150)
        receipt = gate.run(others=self.RULE)
        assert gate.ids("message") == {"b", "c"}
        assert receipt.discarded == {"message": {"older than 100 days": 1}}

    def test_a_live_session_keeps_its_newest_turns_and_its_system_messages(self, gate):
        old = [message("be brief", id="system", session="live", role="system")]
        for n in range(25):
            old.append(message("q", id=f"q{n}", session="live", at=n))
            old.append(message("a", id=f"a{n}", session="live", at=n, role="assistant"))
        gate.store.put([*old, message("still there?", id="now", session="live", at=120 * 86_400)])
        gate.store.put([message("be brief", id="other", session="dead", role="system")])
        gate.clock.forward(days=121)
        gate.run(others=self.RULE, batch=4)
        stay = {"system", "now", *(f"{who}{n}" for who in "qa" for n in range(6, 25))}
        assert gate.ids("message") == stay, "20 turns, the last of them new"
        gate.clock.forward(days=31)
        gate.run(others=self.RULE, batch=4)
        assert gate.ids("message") == {"now"}, "by now the session is not live"

    def test_a_short_live_session_keeps_all(self, gate):
        said = [message("q", id=f"q{n}") for n in range(19)]
        gate.store.put([*said, message("q", id="now", at=120 * 86_400)])
        gate.clock.forward(days=121)
        assert gate.run(others=self.RULE).total == 0

    def test_what_comes_back_is_at_its_place(self, gate):
        before = gate.store.put([message(str(n), id=str(n), session="s", at=n) for n in range(9)])
        gate.clock.forward(days=150)
        gate.run(others=self.RULE)
        gate.trash.restore(ANA, [("message", str(n)) for n in range(9)])
        scope = replace(ANA, session_id="s")
        assert gate.store.find(Query(scope=scope, kinds=("message",), limit=20)) == before


def test_after_the_grace_time_it_is_gone_for_good(gate):
    gate.store.put([failed("e", task_id="job"), task(id="job"), failed("b", user="ben")])
    gate.clock.forward(days=61)
    gate.run()
    gate.run(BEN)
    gate.clock.forward(days=30)
    assert gate.run().erased == 0
    gate.clock.forward(seconds=1)
    assert gate.run(dry_run=True).erased == 2
    assert (len(gate.in_trash()), gate.run(batch=1).erased, gate.in_trash()) == (2, 2, {})
    assert (len(gate.in_trash(BEN)), gate.run(BEN, grace=timedelta(days=99)).erased) == (1, 0)


def everything(gate):
    query = Query(scope=ANA, kinds=KINDS, limit=10_000)
    return gate.store.find(query), gate.in_trash(), gate.store.count(query)


def test_a_dry_run_changes_nothing_and_says_what_would_go(gate):
    gate.store.put([failed(f"old{n}", task_id=f"t{n}") for n in range(4)] + [task(id="t0"), task(id="t1")])
    gate.store.put([episode(id=f"e{n}", at=n) for n in range(8)] + [failed("p", pinned=True)])
    gate.store.put([knowledge(confidence=0.5), fact(status="retracted"), message("hi", at=-9e7)])
    gate.clock.forward(days=200)
    before, options = everything(gate), {"rule": SMALL, "batch": 3}
    options["others"] = (*ForgetGate(gate.store, gate.trash).others[:2], MessageRule(max_age=DAY))
    dry = gate.run(dry_run=True, **options)
    assert everything(gate) == before
    real = gate.run(**options)
    for name in ("discarded", "kept", "recomputed", "erased", "items", "scope", "at"):
        assert getattr(dry, name) == getattr(real, name), name
    assert (dry.dry_run, real.dry_run, dry.total) == (True, False, 4 + 6 + 2 + 3)
    assert dry.kept == gate.run(**options).kept, "and a second run finds nothing to do"
    assert gate.run(**options).total == gate.run(**options).recomputed == 0


def test_a_hair_is_not_written(gate):
    gate.store.put([episode(id="e")])
    assert gate.run().recomputed == 1
    gate.clock.forward(hours=7)
    assert gate.run().recomputed == 0
    gate.clock.forward(hours=7)
    assert gate.run().recomputed == 1


def test_the_list_is_bounded_the_counts_are_not(gate):
    gate.store.put([failed(f"e{n}") for n in range(SHOWN + 5)])
    gate.clock.forward(days=61)
    receipt = gate.run()
    assert (len(receipt.items), receipt.total) == (SHOWN, SHOWN + 5)


def test_only_what_lies_in_the_scope_is_looked_at(gate):
    ops, desk = Scope(user_id="ana", agent_id="ops"), Scope(user_id="ana", agent_id="desk")
    gate.store.put([replace(failed(f"ops{n}"), scope=ops) for n in range(5)])
    gate.store.put([replace(episode(id=f"desk{n}"), scope=desk) for n in range(5)])
    gate.clock.forward(days=61)
    assert gate.run(desk, rule=SMALL).discarded == {"episode": {"more than 3 episodes": 2}}
    assert len(gate.ids(scope=ops)) == 5
    assert gate.run(ops, rule=SMALL).discarded == {"episode": {"importance below 0.25": 5}}


@pytest.mark.parametrize("options", [{"batch": 0}, {"batch": 10_001}, {"grace": timedelta(seconds=-1)}])
def test_impossible_options_are_refused(gate, options):
    refused(InputError, next(iter(options)), gate.run, **options)


def test_a_lesson_outlives_its_experiences(gate):
    gate.store.put([failed("e"), knowledge(id="k", source_episodes=("e",), confidence=0.9)])
    gate.store.put([message("I moved to Lyon", id="m"), fact(id="f", sources=("m",))])
    gate.clock.forward(days=400)
    gate.run(others=(MessageRule(max_age=DAY),))
    assert gate.ids() == gate.ids("message") == set()
    (lesson,) = gate.store.find(Query(scope=ANA, kinds=("knowledge",)))
    assert (lesson.source_episodes, lesson.confidence) == (("e",), 0.9)
    assert gate.ids("fact") == {"f"}
