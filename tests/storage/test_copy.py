"""From memory to memory, file or server: everything as it was, nothing twice, whatever comes in between."""

import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from copying import both_ends, embed, fill, found, opened, whole, whole_of
from refusing import refused
from samples import ANA, AWKWARD, START, message, summary, task

from jiyi.errors import CopyMismatch, NotFound
from jiyi.records import SEARCHABLE, Query
from jiyi.storage.ledger import Ledger
from jiyi.storage.transfer.copy import copy_memory
from jiyi.testing import HashEmbedder

pytestmark = pytest.mark.usefixtures("small_batches")


@pytest.fixture
def ends(tmp_path):
    with both_ends(tmp_path / "here.db", tmp_path / "there.db") as both:
        yield both


@pytest.fixture
def here(ends):
    return ends[0]


@pytest.fixture
def there(ends):
    return ends[1]


def test_everything_goes_along(here, there):
    fill(here)
    fill(here, "ben")
    Ledger(here.database).put_key("k1", "its hash")
    before = whole(here)
    receipt = copy_memory(here, there)
    assert (receipt.keys, Ledger(there.database).keys()) == (1, {"k1": "its hash"})
    assert whole(here) == before == whole(there)
    assert found(here, "disks") == found(there, "disks")
    assert there.vectors.claim() == here.vectors.claim()
    assert (receipt.users, receipt.known) == (("ana", "ben"), 0)
    assert receipt.embedder == HashEmbedder().name
    assert receipt.added == {part: 2 * count for part, count in _counts(whole_of(here, "ana")).items()}
    assert {part: seen.count for part, seen in receipt.checked.items()} == receipt.added
    held = sum(receipt.added[kind] for kind in SEARCHABLE)
    waiting = sum(before[user]["pending"] for user in receipt.users)
    assert waiting == 3
    assert receipt.vectors == held - waiting
    there.database.check()


def _counts(held):
    parts = ("trash", "message", "task", "episode", "knowledge", "fact", "item", "summary")
    return {part: len(held[part]) for part in parts}


def test_a_second_time_everything_is_known(here, there):
    fill(here)
    Ledger(here.database).put_key("k1", "its hash")
    first = copy_memory(here, there, users=["ana"])
    assert not Ledger(there.database).keys()
    Ledger(there.database).put_key("k1", "revoked")
    again = copy_memory(here, there)
    assert Ledger(there.database).key("k1") == "revoked"
    assert sum(again.added.values()) == again.vectors == again.keys == 0
    assert again.known == sum(first.added.values())
    assert again.checked == first.checked
    assert whole(there) == whole(here)


def test_no_place_in_a_session_is_given_twice(here, there):
    fill(here, messages=30)
    copy_memory(here, there)
    for session in ("s0", "s1", "s3"):
        (one,) = here.store.put([message("next", session=session, at=100, id=f"next {session}")])
        (other,) = there.store.put([message("next", session=session, at=100, id=f"next {session}")])
        assert one == other
    back = [("message", "m28")]
    assert here.trash.restore(ANA, back) == there.trash.restore(ANA, back)


def test_a_session_whose_newest_are_purged_goes_on_behind_them(here, there):
    here.store.put([message(str(i), id=str(i), at=i) for i in range(9)])
    here.store.delete(Query(scope=ANA, ids=("7", "8")))
    copy_memory(here, there)
    assert whole(there) == whole(here)
    (next_one,) = there.store.put([message("next", at=20)])
    assert next_one.seq == 9


def test_the_trash_can_stay_behind(here, there):
    fill(here)
    receipt = copy_memory(here, there, trash=False)
    assert whole_of(there, "ana") == whole_of(here, "ana") | {"trash": []}
    assert "trash" not in receipt.checked


def test_only_the_users_named(here, there):
    fill(here)
    fill(here, "ben")
    copy_memory(here, there, users=["ben"])
    assert there.database.users() == ["ben"]
    assert whole_of(there, "ben") == whole_of(here, "ben")
    refused(NotFound, "'eve'", copy_memory, here, there, users=["ben", "eve"])


def test_a_target_with_anything_else_is_refused_before_anything_is_written(here, there):
    here.store.put([message("one", id="a"), message("two", id="b", at=1)])
    here.store.put([message("gone", id="d", session="z"), message("stays", id="e", session="z", at=1)])
    here.trash.discard(ANA, [("message", "d")], reason="r", at=START)
    there.store.put([message("of somebody else, which does not matter", id="a", user="ben")])
    for odd, said in (
        (message("else", id="a"), "message a differs from the source's"),
        (message("one", id="a", session="q"), "message a differs from the source's"),
        (message("in its place", id="x"), "message x is not in the source"),
        (message("gone", id="d", session="z"), "message d is not in the source"),
        (task("there", id="t"), "task t is not in the source"),
    ):
        there.store.put([odd])
        before = whole(there)
        refused(CopyMismatch, f"of user 'ana': {said}; copy into a fresh place", copy_memory, here, there)
        assert whole(there) == before
        there.store.delete(Query(scope=ANA, kinds=("message", "task"), ids=(odd.id,)))
    copy_memory(here, there)
    assert whole_of(there, "ana") == whole_of(here, "ana")


def test_a_summary_goes_on_from_versions_that_are_gone(here, there):
    here.store.put([message(str(i), id=str(i), at=i) for i in range(6)])
    versions = [summary(covers=("0",), upto=0, id="v1")]
    for n in range(2, 6):
        versions.append(summary(versions[-1], covers=(str(n),), upto=n, id=f"v{n}", at=n))
    here.store.put(versions)
    here.store.delete(Query(scope=ANA, kinds=("summary",), ids=("v1", "v2", "v4")))
    copy_memory(here, there)
    assert whole(there) == whole(here)
    assert [s.id for s in there.store.find(Query(scope=ANA, kinds=("summary",)))] == ["v3", "v5"]
    there.database.check()


def test_another_embedders_target_gets_no_vectors(here, there):
    fill(here)
    there.vectors.claim("another", 8)
    receipt = copy_memory(here, there)
    assert (receipt.embedder, receipt.vectors) == (None, 0)
    assert there.vectors.claim().name == "another"
    held = whole_of(there, "ana")
    assert held["vectors"] == []
    assert held["pending"] == sum(len(held[kind]) for kind in SEARCHABLE)


def test_what_changed_in_the_source_between_two_copies_is_refused(here, there):
    fill(here)
    copy_memory(here, there)
    here.store.delete(Query(scope=ANA, kinds=("episode",), ids=("e1",)))
    refused(CopyMismatch, "episode e1 is not in the source", copy_memory, here, there)


def test_vectors_of_other_words_are_not_taken_over(here, there):
    here.store.put([message("one", id="a"), message("two", id="b", at=1)])
    embed(here)
    words = {False: {}, True: {"a": "else"}}

    def find_by_keys(user_id, keys):
        late = there.store.count(Query(scope=ANA))["message"] == 2  # changed after its record was copied
        found = here.store.find_by_keys(user_id, keys)
        return {k: replace(m, content=words[late].get(m.id, m.content)) for k, m in found.items()}

    with pytest.raises(CopyMismatch, match="1 records lack vectors, 0 in the source"):
        copy_memory(replace(here, store=Lossy(here.store, find_by_keys=find_by_keys)), there)
    assert len(whole_of(there, "ana")["vectors"]) == 1


def test_progress_is_told(here, there):
    fill(here)
    seen = []

    def progress(what, done, total):
        assert 0 < done <= total
        seen.append(what)

    copy_memory(here, there, progress=progress)
    assert list(dict.fromkeys(seen)) == ["records", "vectors", "checked"]


class Lossy:
    """Passes everything on, but something is lost on the way."""

    def __init__(self, inner, **verbs):
        self._inner, self._verbs = inner, verbs

    def __getattr__(self, name):
        return self._verbs.get(name) or getattr(self._inner, name)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: None if r.id == "m8" else r, "message: 29 records were read {}, 28 are"),
        (
            lambda r: replace(r, importance=0.9) if r.id == "e1" else r,
            "episode: 2 records were read {}, 2 are",
        ),
    ],
)
def test_a_lost_or_altered_record_is_an_error_that_names_its_kind(here, there, change, said):
    fill(here)

    def put_back(records, words=None):
        there.store.put_back([one for one in map(change, records) if one])
        return records

    with pytest.raises(CopyMismatch, match="'ana': " + said.format(r"\(\w{32}\)")):
        copy_memory(here, replace(there, store=Lossy(there.store, put_back=put_back)))


def test_lost_vectors_are_an_error(here, there):
    fill(here)
    lossy = replace(there, vectors=Lossy(there.vectors, add=lambda rows, name: len(rows)))
    refused(CopyMismatch, "lack vectors", copy_memory, here, lossy)


KILLED = """
import os, signal, sys
from dataclasses import replace
sys.path += {paths!r}
from at_once import wait_until
from copying import both_ends
from jiyi.storage.transfer import copy
from jiyi.storage.transfer.copy import copy_memory
copy._BATCH_SIZE = 4
left = int(sys.argv[3])

class Deadly:
    def __init__(self, inner, *verbs):
        self.inner, self.verbs = inner, verbs
    def __getattr__(self, name):
        verb = getattr(self.inner, name)
        if name not in self.verbs:
            return verb
        def call(*args, **kw):
            global left
            left -= 1
            done = verb(*args, **kw)  # its transaction, or one around it, may still be open
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return done
        return call

with both_ends(*sys.argv[1:3]) as (here, there):
    there = replace(
        there,
        store=Deadly(there.store, "put_back"),
        trash=Deadly(there.trash, "put"),
        vectors=Deadly(there.vectors, "add", "claim"),
    )
    copy_memory(here, there)
"""


@pytest.mark.slow
def test_killed_anywhere_it_goes_on_and_ends_the_same(tmp_path):
    with both_ends(tmp_path / "here.db", tmp_path / "other.db") as (here, _):
        fill(here)
        wanted = whole(here)
    tests = Path(__file__).parents[1]
    script = KILLED.format(paths=[str(tests), str(tests / "contract")])
    killed, calls = 0, 1
    while True:
        place = tmp_path / "there.db"
        command = [sys.executable, "-c", script, str(tmp_path / "here.db"), str(place), str(calls)]
        done = subprocess.run(command, check=False, timeout=60)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        killed, calls = killed + 1, calls + 2
    assert killed > 3
    there = opened(tmp_path / "there.db")
    try:
        assert whole(there) == wanted
        there.database.check()
    finally:
        there.database.close()


def test_trash_and_life_may_share_ids_and_places(here, there):
    for at in range(3):  # a session that was emptied starts again: its places were given before
        here.store.put([message(f"life {at}", id=f"m{at}", at=at), message(f"{at}", id="again", at=at + 10)])
        keys = [("message", f"m{at}"), ("message", "again")]
        here.trash.discard(ANA, keys, reason=f"r{at}", at=START + timedelta(days=at))
    here.store.put([message("now", id="m0", at=20), message("now", id="again", at=21)])
    assert whole_of(here, "ana")["message"][0].seq in (0, 1)
    copy_memory(here, there)
    assert whole(there) == whole(here)
    assert there.trash.walk(Query(scope=ANA, kinds=("message",))).records


@pytest.mark.slow
def test_there_and_back_is_the_same(tmp_path, postgres_url):
    with both_ends(tmp_path / "here.db", postgres_url) as (here, there):
        fill(here)
        fill(here, "ben")
        for number, text in enumerate(AWKWARD.values()):
            here.store.put([message(text, session="awkward", id=f"odd{number}", at=number)])
            before = [("message", f"odd{number - 1}")]
            here.trash.discard(ANA, before, reason=text, at=START)
        first = copy_memory(here, there)
        before = whole(here)
        assert whole(there) == before
        assert found(there, "disks")[0] == found(here, "disks")[0]
        assert {key[:2] for key in found(there, "disks")[1]} == {key[:2] for key in found(here, "disks")[1]}
        again = copy_memory(here, there)
        assert (sum(again.added.values()), again.checked) == (0, first.checked)
        there.database.check()
    with both_ends(postgres_url, tmp_path / "back.db") as (there, back):
        assert copy_memory(there, back).checked == first.checked
        assert whole(back) == before
        for session in ("s0", "s1", "s3"):
            told = [side.store.put([message("next", session=session, id=session)]) for side in (there, back)]
            assert told[0] == told[1]
