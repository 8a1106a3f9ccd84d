"""What `Store.amend` changes is what search ranks by, at once and without reading the user's rows again."""

from jiyi.records import Scope
from jiyi.storage import Amendment, SqliteVectors, Store, Trash
from jiyi.storage.search.user_terms import UserTerms

ANA = Scope(user_id="ana")


def test_importance_that_was_amended_decides_between_equals(memory):
    a, b = (memory.save_message(s, role="user", content="the nginx container broke") for s in "ab")
    memory.flush()
    database = memory._store._db
    store = Store(database)

    def first(high, low):
        store.amend(ANA, "message", [Amendment(id=high.id, importance=1), Amendment(id=low.id, importance=0)])
        hits = memory.search("nginx container")
        assert hits[0].why["importance"] > 0 > hits[1].why["importance"]
        return hits[0].id

    assert first(a, b) == a.id
    held = database.cache._users["ana"].parts[UserTerms]
    assert first(b, a) == b.id
    assert database.cache._users["ana"].parts[UserTerms] is held


def test_a_restored_message_is_found_by_its_vector_once_the_indexer_was_there(memory):
    kept = memory.save_message("s", role="user", content="the nginx container broke")
    memory.save_message("s", role="user", content="something else entirely")
    assert memory.flush() == 2
    trash = Trash(memory._store._db)
    trash.discard(ANA, [("message", kept.id)], reason="x", at=kept.created_at)
    assert kept.id not in [hit.id for hit in memory.search("nginx container")]
    trash.restore(ANA, [("message", kept.id)])
    assert memory.stats()["vectors_pending"] == 1
    assert memory.search("nginx container")[0].id == kept.id
    assert memory.flush() == 1
    hit = memory.search("nginx container")[0]
    assert (hit.id, hit.record) == (kept.id, kept)
    assert SqliteVectors(memory._store._db).read(ANA, [("message", kept.id)]).rows.tolist() == [0]
