"""Experience becomes knowledge, on a real file, without a language model."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from at_once import at_once
from consolidation_tools import ANA, START, episode, knowledge_of, themed, unconsolidated
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import refused

from jiyi.errors import SettingsError, StorageError
from jiyi.long_term.consolidation.consolidation import Consolidation
from jiyi.records import Query, Scope, stable_id
from jiyi.storage import Amendment, SqliteDatabase, SqliteVectors, Store
from jiyi.testing import ManualClock


def everything(path):
    """All rows of all tables that hold records."""
    database = SqliteDatabase(path)
    with database.read() as db:
        tables = ("documents", "episodes", "knowledge", "sources", "terms", "vectors")
        rows = {name: sorted(map(repr, db.raw.execute(f"SELECT * FROM {name}"))) for name in tables}
    database.close()
    return rows


@pytest.fixture
def clock():
    return ManualClock(START + timedelta(days=100))


@pytest.fixture
def consolidation(store, vectors, clock):
    return Consolidation(store, vectors, clock=clock)


def nginx(*numbers, target="nginx container", **fields):
    return [episode(f"n{n}", target, n, steps=["docker restart nginx"], **fields) for n in numbers]


def test_it_grows_also_when_the_old_episodes_are_gone(store, consolidation):
    store.put(nginx(1, 2, 3))
    consolidation.run(ANA)
    for number in (4, 5):
        store.delete(Query(scope=ANA, kinds=("episode",)))
        store.put([episode(f"n{number}", "nginx container", number, outcome="failed", summary="port in use")])
        assert consolidation.run(ANA).episodes == 1
    (known,) = knowledge_of(store)
    assert known.source_episodes == ("n1", "n2", "n3", "n4", "n5")
    failed, earlier = known.key_points
    assert failed == "Did not succeed: port in use (1 of 1)"
    assert earlier == "Earlier: docker restart nginx (3 of 3)"
    assert "Counted over the newest 1." in known.content


def test_a_knowledge_that_was_deleted_is_not_made_again_of_what_it_had(store, consolidation):
    store.put(nginx(1, 2, 3))
    consolidation.run(ANA)
    store.delete(Query(scope=ANA, kinds=("knowledge",)))
    store.put(nginx(4))
    assert (consolidation.run(ANA).waiting, knowledge_of(store)) == (1, [])
    store.put(nginx(5, 6))
    consolidation.run(ANA)
    assert knowledge_of(store)[0].source_episodes == ("n4", "n5", "n6")


def test_running_again_changes_nothing(store, consolidation, clock, path, flush):
    store.put([*nginx(*range(5)), *[replace(e, id=f"x{e.id}") for e in nginx(1, 2, target="edge-02")]])
    store.put(themed("en")[0])
    flush()
    assert consolidation.run(ANA).groups
    flush()
    before = everything(path)
    for _ in range(3):
        clock.forward(days=1)
        receipt = consolidation.run(ANA)
        assert (receipt.groups, receipt.notes) == ((), ())
    assert everything(path) == before


def test_users_and_agents_are_kept_apart(store, consolidation):
    for agent in (None, "a", "b"):
        store.put([episode(f"{agent}{n}", "edge-02", n, agent=agent) for n in range(3)])
    store.put([episode(f"ben{n}", "edge-02", n, user="ben") for n in range(3)])
    store.put([episode("c0", "edge-02", agent="c")])
    receipt = consolidation.run(Scope(user_id="ana", session_id="s"))
    assert (len(receipt.created), receipt.waiting) == (3, 1)
    sizes = {known.scope.agent_id: len(known.source_episodes) for known in knowledge_of(store)}
    assert (sizes, knowledge_of(store, "ben")) == ({None: 3, "a": 3, "b": 3}, [])
    store.put([episode(f"c{n}", "edge-02", n, agent="c") for n in (1, 2)])
    receipt = consolidation.run(Scope(user_id="ana", agent_id="c"))
    assert knowledge_of(store)[-1].scope == Scope(user_id="ana", agent_id="c")
    assert receipt.episodes == 3


def test_a_group_larger_than_what_is_read_keeps_all_its_sources(store, consolidation, monkeypatch):
    store.put([episode(f"e{n:04}", "edge-02", n / 1_000, steps=[f"step {n // 600}"]) for n in range(1_100)])
    consolidation.run(ANA)
    (known,) = knowledge_of(store)
    assert len(known.source_episodes) == 1_100
    assert known.content.endswith("Counted over the newest 1000.")
    assert known.key_points == ("step 1 (500 of 1000)", "step 0 (500 of 1000)")
    assert unconsolidated(store) == set()


def test_alike_episodes_meet_by_their_vectors(store, consolidation, keep):
    episodes, theme = themed("en")
    keep(episodes)
    receipt = consolidation.run(ANA)
    assert receipt.created
    for known in knowledge_of(store):
        assert known.content.startswith(f"{len(known.source_episodes)} episodes of one kind")
        assert len(known.source_episodes) >= 3
    assert receipt.waiting == len(unconsolidated(store))
    assert receipt.waiting + receipt.episodes == len(theme)


def test_without_vectors_words_decide(store, vectors, clock):
    texts = ["nginx returned 502 again", "nginx returned 502", "502 from nginx", "order a pizza"]
    store.put([episode(f"e{n}", None, n, trigger=text) for n, text in enumerate(texts)])
    receipt = Consolidation(store, vectors, clock=clock).run(ANA)
    (known,) = knowledge_of(store)
    assert known.id == stable_id("knowledge", "ana", "", "alike", "e0")
    assert known.source_episodes == ("e0", "e1", "e2")
    assert receipt.notes == ("1 episodes without a target have no vector yet: compared by their words",)
    store.put([episode("e9", "  ", 9, trigger="nginx returned 502 once more")])
    receipt = Consolidation(store, None, clock=clock).run(ANA)
    assert (receipt.updated, receipt.notes) == ((known.id,), ())
    assert knowledge_of(store)[0].source_episodes == ("e0", "e1", "e2", "e9")


def test_a_group_keeps_its_knowledge_when_its_leader_is_gone(store, consolidation):
    store.put([episode(f"e{n}", None, n, trigger="nginx returned 502") for n in range(3)])
    consolidation.run(ANA)
    (known,) = knowledge_of(store)
    store.delete(Query(scope=ANA, kinds=("episode",), ids=("e0",)))
    store.put([replace(known, source_episodes=("e1", "e2"))])
    store.put([episode("e7", None, 7, trigger="nginx returned 502")])
    assert consolidation.run(ANA).updated == (known.id,)
    assert [(k.id, k.source_episodes) for k in knowledge_of(store)] == [(known.id, ("e1", "e2", "e7"))]


def test_languages_and_agents_do_not_mix_without_a_target(store, consolidation):
    for agent in ("a", "b"):
        store.put([episode(f"{agent}{n}", None, n, agent=agent, trigger="nginx 502") for n in range(2)])
    store.put([episode("zh", None, 3, agent="a", trigger="nginx 502 网关又出错了")])
    assert consolidation.run(ANA).groups == ()


def test_only_the_newest_without_a_target_are_compared(store, consolidation, monkeypatch):
    monkeypatch.setattr("jiyi.long_term.consolidation.clusters.WINDOW", 5)
    monkeypatch.setattr("jiyi.long_term.consolidation.consolidation.WINDOW", 5)
    store.put([episode(f"e{n}", None, n, trigger="nginx returned 502") for n in range(8)])
    receipt = consolidation.run(ANA)
    assert knowledge_of(store)[0].source_episodes == ("e3", "e4", "e5", "e6", "e7")
    assert receipt.waiting == 3
    assert receipt.notes == ("3 episodes without a target are older than the newest 5: not compared",)


def test_two_runs_at_once_make_one_knowledge_of_each_group(path, clock):
    setup = SqliteDatabase(path)
    store = Store(setup)
    store.put([episode(f"{t}-{n}", f"edge-{t}", n, steps=["restart"]) for t in range(30) for n in range(4)])
    store.put([episode(f"e{n}", None, n, trigger="nginx returned 502") for n in range(4)])
    barrier = threading.Barrier(2)

    def run(_):
        database = SqliteDatabase(path)
        one = Consolidation(Store(database), SqliteVectors(database), clock=clock)
        barrier.wait()
        receipt = one.run(ANA)
        database.close()
        return receipt

    receipts = at_once(run, range(2))
    known = knowledge_of(store)
    assert len(known) == 31
    every = store.find(Query(scope=ANA, kinds=("episode",), limit=1_000))
    assert sorted(id_ for one in known for id_ in one.source_episodes) == sorted(e.id for e in every)
    assert sum(receipt.episodes for receipt in receipts) == 124
    assert sorted(id_ for receipt in receipts for id_ in receipt.created) == sorted(one.id for one in known)
    assert unconsolidated(store) == set()
    setup.close()


class Meddling(Store):
    """Lets somebody else act before the first transactions."""

    def __init__(self, database, acts):
        super().__init__(database)
        self.acts = list(acts)

    def together(self, verb, *, repeatable=False):
        if self.acts:
            self.acts.pop(0)()
        return super().together(verb, repeatable=repeatable)


def test_what_changed_since_it_was_read_is_read_again(database, store, clock):
    store.put(nginx(1, 2, 3, 4))
    gone = [lambda: store.delete(Query(scope=ANA, kinds=("episode",), ids=("n2",)))]
    receipt = Consolidation(Meddling(database, gone), None, clock=clock).run(ANA)
    (known,) = knowledge_of(store)
    assert known.source_episodes == ("n1", "n3", "n4")
    assert "3 episodes" in known.content
    assert receipt.notes == ()


def test_what_another_run_took_meanwhile_is_left_to_it(database, store, clock):
    store.put(nginx(1, 2, 3))
    other = Consolidation(store, None, clock=clock)
    mine = Consolidation(Meddling(database, [lambda: other.run(ANA)]), None, clock=clock)
    assert (mine.run(ANA).groups, len(knowledge_of(store))) == ((), 1)


def test_what_changes_all_the_time_is_left_to_the_next_run(database, store, clock):
    store.put(nginx(*range(10)))

    def flip(number):
        return lambda: store.amend(ANA, "episode", [Amendment(id=f"n{number}", consolidated=True)])

    receipt = Consolidation(Meddling(database, [flip(n) for n in range(4)]), None, clock=clock).run(ANA)
    assert (receipt.groups, receipt.skipped) == ((), 1)
    assert "changed by another process" in receipt.notes[0]
    assert knowledge_of(store) == []
    assert Consolidation(store, None, clock=clock).run(ANA).episodes == 6


def test_an_error_of_the_database_leaves_nothing_half_done(store, clock, monkeypatch):
    store.put(nginx(1, 2, 3))

    def fail(*_):
        raise StorageError("disk full")

    monkeypatch.setattr(store, "amend", fail)
    one = Consolidation(store, None, clock=clock)
    refused(StorageError, "disk full", one.run, ANA)
    assert knowledge_of(store) == []
    monkeypatch.undo()
    assert one.run(ANA).episodes == 3


def test_a_knowledge_is_written_anew_from_what_is_left(store, consolidation, clock):
    store.put([*nginx(1, 2, 3), *nginx(4, outcome="failed", summary="the secret is swordfish")])
    consolidation.run(ANA)
    (known,) = knowledge_of(store)
    assert "swordfish" in known.search_text
    store.delete(Query(scope=ANA, kinds=("episode",), ids=("n4",)))
    clock.forward(hours=1)
    again = consolidation.rewritten(replace(known, source_episodes=("n1", "n2", "n3")))
    assert "swordfish" not in again.search_text
    assert (again.id, again.source_episodes, again.updated_at) == (known.id, ("n1", "n2", "n3"), clock())
    assert again.confidence == 0.6875
    assert knowledge_of(store) == [known], "nothing is written"
    store.delete(Query(scope=ANA, kinds=("episode",)))
    assert consolidation.rewritten(again) is None


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["a", "b", ""])), max_size=25))
def test_any_mix_is_consolidated_once_and_then_stable(tmp_path_factory, mix):
    database = SqliteDatabase(tmp_path_factory.mktemp("mix") / "agent.db")
    store = Store(database)
    one = Consolidation(store, None, clock=ManualClock(START))
    ids = []
    for day, (cut, target) in enumerate(mix):
        ids.append(f"e{day}")
        store.put([episode(ids[-1], target, day, trigger=f"kind {target} {cut}")])
        if cut == 0:
            one.run(ANA)
            assert one.run(ANA).groups == ()
    one.run(ANA)
    known = knowledge_of(store)
    sources = [id_ for each in known for id_ in each.source_episodes]
    assert len(sources) == len(set(sources))
    assert set(sources) == set(ids) - unconsolidated(store)
    database.close()


def test_two_are_too_few_and_wait_unless_another_number_is_chosen(store, vectors, consolidation):
    store.put([*nginx(1, 2), episode("o1", "edge-02"), episode("o2", "edge-03"), episode("o3", "edge-04")])
    receipt = consolidation.run(ANA)
    assert knowledge_of(store) == []
    assert (receipt.groups, receipt.waiting, receipt.skipped) == ((), 5, 4)
    assert len(unconsolidated(store)) == 5
    assert Consolidation(store, vectors, min_episodes=2).run(ANA).episodes == 2
    refused(SettingsError, "at least 2", Consolidation, store, vectors, min_episodes=1)
