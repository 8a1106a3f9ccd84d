"""The second wall: whatever a statement asks for, the server shows rows of the tenant that was set."""

import inspect

import numpy as np
import psycopg
import pytest
from opening import Opened, open_place
from samples import ANA, BEN, START, episode, fact, item, knowledge, message, summary, task
from taken_out import undone

from jiyi.errors import StorageError
from jiyi.records import Query, Step
from jiyi.storage.postgres import database as module
from jiyi.storage.postgres.migrate import tables
from jiyi.storage.postgres.statements import set_tenant
from jiyi.storage.store import Amendment, Store
from jiyi.storage.trash import Discarded, Trash
from jiyi.storage.vectors import VectorIndex, VectorRow

EVERY = ("message", "episode", "knowledge", "fact", "item", "task", "step", "session", "summary")
KEYS = [("message", "m"), ("episode", "e"), ("knowledge", "k"), ("fact", "f"), ("item", "i"), ("task", "t")]


@pytest.fixture
def opened(postgres_url):
    """A memory of ben's with something of every kind, in the trash too."""
    opened = open_place(postgres_url)
    makers = {"m": message, "i": item, "t": task}
    opened.store.put([make("the word", id=id_, user="ben") for id_, make in makers.items()])
    opened.store.put([message("thrown away", id="old", user="ben")])
    opened.store.put([episode("the word", id="e", user="ben", target="web")])
    opened.store.put([knowledge("the word", id="k", user="ben", source_episodes=("e",))])
    opened.store.put([fact("the word", id="f", user="ben", sources=("m",))])
    opened.store.put([Step(scope=BEN, task_id="t", id="step", description="the word")])
    opened.store.put([summary(covers=("m",), id="s", user="ben")])
    opened.vectors.claim("some", 4)
    waiting = opened.vectors.pending(100)
    opened.vectors.add([VectorRow(key=p.key, vectors=np.eye(1, 4, dtype=np.float32)) for p in waiting])
    opened.trash.discard(BEN, [("message", "old")], reason="", at=START)
    yield opened
    opened.database.close()


@pytest.fixture
def misled(opened, monkeypatch):
    """The same, but the server is told "ana" whatever user a statement is for: the first wall is down."""

    def set_ana(user_id, timeouts, **options):
        return set_tenant("ana", timeouts, **options)

    monkeypatch.setattr(module, "set_tenant", set_ana)
    return opened


def test_no_verb_reads_across(misled):
    store, vectors, trash, database = misled
    user = Query(scope=BEN, kinds=EVERY, limit=100)
    assert store.find(user) == []
    assert store.find_by_keys("ben", [("message", "m"), *KEYS]) == {}
    assert set(store.count(user).values()) == {0}
    assert len(store.match(Query(scope=BEN, text="word"), [("message", "m")])) == 0
    assert store.scan(Query(scope=BEN, kinds=("message",))).records == ()
    assert store.targets(Query(scope=BEN, kinds=("episode",))) == {}
    assert store.paths(Query(scope=BEN, kinds=("item",))) == []
    assert store.changes(BEN) == 0
    assert (store.damaged(BEN), store.notes(BEN)) == ([], ())
    assert trash.discarded(Query(scope=BEN, kinds=EVERY)) == []
    assert trash.walk(Query(scope=BEN, kinds=EVERY)).records == ()
    assert vectors.nearest(Query(scope=BEN), np.eye(1, 4, dtype=np.float32)[0]) == []
    assert len(vectors.read(BEN, KEYS).rows) == 0
    snapshot = store.snapshot("ben")
    assert len(store.match(Query(scope=BEN, text="word"), [("message", "m")], snapshot=snapshot)) == 0
    assert len(vectors.read(BEN, KEYS, snapshot=snapshot).rows) == 0
    near = vectors.nearest_rows(Query(scope=BEN), np.eye(1, 4, dtype=np.float32)[0], snapshot)
    assert len(near) == len(vectors.read_rows(snapshot, near).rows) == 0
    assert vectors.pending(10, leased=False) == []
    assert vectors.count_set_aside("ben") == vectors.count_set_aside() == {}
    assert database.users() == []


def _in_transaction(opened: Opened) -> None:
    with opened.store.transaction():
        assert opened.store.find(Query(scope=BEN, kinds=EVERY)) == []
        opened.store.put([message("mine", id="new", user="ben")])


LYING = Discarded(record=message("mine", user="ben"), kind="message", reason="", discarded_at=START)
WRITING = {
    "delete": lambda o: o.store.delete(Query(scope=BEN, kinds=("message", "task", "summary"))),
    "put": lambda o: o.store.put([message("mine", id="new", user="ben")]),
    "put knowledge": lambda o: o.store.put([knowledge("mine", id="k", user="ben")]),
    "put an item": lambda o: o.store.put([item("mine", id="i", user="ben")]),
    "put a task": lambda o: o.store.put([task("mine", id="t", user="ben")]),
    "put many": lambda o: o.store.put([message(f"{n}", user="ben") for n in range(200)]),
    "amend": lambda o: o.store.amend(BEN, "message", [Amendment(id="m", pinned=True)]),
    "put_back": lambda o: o.store.put_back([message("mine", id="new", user="ben", seq=7)]),
    "discard": lambda o: o.trash.discard(BEN, KEYS, reason="", at=START),
    "put into the trash": lambda o: o.trash.put("ben", [LYING]),
    "restore": lambda o: o.trash.restore(BEN, [("message", "old")]),
    "erase": lambda o: o.trash.erase(BEN),
    "drop_damaged": lambda o: o.store.drop_damaged(BEN),
    "mark_overwrite_pending": lambda o: o.trash.mark_overwrite_pending(),
    "finish_overwrite": lambda o: o.trash.finish_overwrite(),
    "add": lambda o: o.vectors.add([VectorRow(key=("ben", 1), vectors=np.eye(1, 4, dtype=np.float32))]),
    "set_aside": lambda o: o.vectors.set_aside(("ben", 1), 400),
    "requeue_set_aside": lambda o: o.vectors.requeue_set_aside(),
    "claim": lambda o: o.vectors.claim("some", 4),
    "renew": lambda o: o.vectors.renew("other", 3),
    "switch": lambda o: (o.vectors.renew("other", 3), o.vectors.switch("other")),
    "transaction": _in_transaction,
    "together": lambda o: o.store.together(lambda: _in_transaction(o)),
}


@pytest.mark.parametrize("verb", WRITING)
def test_no_verb_writes_across(misled, postgres_server, postgres_url, verb):
    before = _everything(postgres_server, postgres_url)
    refused = "row-level security"  # or done: a verb that finds nothing to change
    try:
        WRITING[verb](misled)
    except StorageError as error:
        refused = str(error)
    assert "row-level security" in refused
    assert _everything(postgres_server, postgres_url) == before


def test_every_verb_is_tried():
    protocols = (Store, Trash, VectorIndex)
    verbs = {name for one in protocols for name, _ in inspect.getmembers(one, inspect.isfunction)}
    verbs -= {"close", "scrub", "check_alone", "records_removed"}
    verbs -= {"drop_all", "count_pending"}  # are about all users, for whoever looks after the database
    tried = inspect.getsource(test_no_verb_reads_across) + " ".join(WRITING)
    assert [verb for verb in sorted(verbs) if not verb.startswith("_") and verb not in tried] == []


def _everything(server, url: str) -> dict[str, list[str]]:
    """All rows of ben's, as a superuser sees them: row level security does not hold for that."""
    with psycopg.connect(server.url_of(url.rpartition("/")[2], superuser=True)) as connection:
        of_ben = "SELECT * FROM {} WHERE tenant_id = 'ben'"
        names = set(tables()) - {"meta"}
        return {name: sorted(map(str, connection.execute(of_ben.format(name)))) for name in names}


def test_without_a_tenant_there_are_no_rows(opened, postgres_url):
    with psycopg.connect(postgres_url) as connection:
        for name in tables():
            count = connection.execute(f"SELECT count(*) FROM {name}").fetchone()
            assert count == ((4,) if name == "meta" else (0,)), name


def test_the_tenant_ends_with_its_transaction(opened):
    """Another program's transaction on the same connection of a pooler must not inherit it."""
    database = opened.database
    assert database.fetch("get_owner", {"user_id": "ben"})
    with database._borrowed() as raw:
        left = raw.execute("SELECT current_setting('jiyi.tenant', true)").fetchone()
    assert left[0] in (None, "")


def test_one_transaction_may_look_after_two_users(opened):
    store = opened.store
    with store.transaction():
        store.put([message("mine", id="1"), message("yours", id="1", user="ben")])
        assert [m.id for m in store.find(Query(scope=ANA))] == ["1"]
        with undone(store):
            store.put([message("undone", id="2", user="ben")])
        store.put([message("mine too", id="2")])
        assert {r.id for r in store.find(Query(scope=BEN))} == {"m", "1", "e", "k", "f", "i"}
    assert [m.seq for m in store.find(Query(scope=ANA))] == [0, 1]
    assert "2 users" in opened.database.check()
