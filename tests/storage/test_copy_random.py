"""Copies of memories that anything may have happened to."""

import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from copying import both_ends, embed, found, whole
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import AWKWARD, START, episode, fact, knowledge, message, summary, task

from jiyi.errors import DuplicateId
from jiyi.records import SEARCHABLE, Query, Scope, Step
from jiyi.storage import Amendment
from jiyi.storage.transfer.copy import copy_memory

pytestmark = pytest.mark.usefixtures("small_batches")
USERS = st.sampled_from(["ana", "ben"])
IDS = st.sampled_from("abcdefgh")
SESSIONS = st.sampled_from(["s", "t", "会话"])
TEXTS = st.sampled_from(["nginx 502", "重启 nginx", "", *AWKWARD.values()])
TIMES = st.integers(0, 5)  # many moments are the same


def say(side, user, id_, session, text, at):
    role = "system" if text.startswith("重启") else "user"
    side.store.put([message(text, id=id_, session=session, user=user, at=at, role=role, pinned=at == 5)])


def work(side, user, id_, session, text, at):
    scope = Scope(user_id=user, session_id=session)
    side.store.put([task(text, id=id_, user=user, at=at, scope=scope)])
    side.store.put([Step(scope=scope, task_id=id_, id=f"{id_}{at}", description=text)])


def learn(side, user, id_, session, text, at):
    side.store.put([episode(text, id=id_, user=user, at=at, access_count=at)])
    side.store.put([fact(text, id=id_, user=user, at=at), knowledge(text, id=id_, user=user, at=at)])


def forget(side, user, id_, session, text, at):
    keys = [(kind, id_) for kind in (*SEARCHABLE, "task")][: at + 1]
    side.trash.discard(Scope(user_id=user), keys, reason=text, at=START + timedelta(days=at))


def restore(side, user, id_, session, text, at):
    side.trash.restore(Scope(user_id=user), [("message", id_), ("fact", id_)])


def purge(side, user, id_, session, text, at):
    side.trash.erase(Scope(user_id=user), keys=[("message", id_), ("task", id_)])


def drop(side, user, id_, session, text, at):
    side.store.delete(Query(scope=Scope(user_id=user), kinds=("message", "episode", "summary"), ids=(id_,)))


def fold(side, user, id_, session, text, at):
    scope = Scope(user_id=user, session_id=session, agent_id="ops" if at == 4 else None)
    query = Query(scope=scope, kinds=("summary",), newest_first=True, limit=1)
    newest = [s for s in side.store.find(query) if s.scope == scope]
    upto = (newest[0].upto_seq if newest else 0) + at
    whose = {} if newest else {"scope": scope}
    side.store.put([summary(*newest, covers=(id_,), upto=upto, id=id_, at=at, **whose)])


def amend(side, user, id_, session, text, at):
    side.store.amend(Scope(user_id=user), "message", [Amendment(id=id_, importance=at / 5, pinned=at > 2)])


def make_vectors(side, user, id_, session, text, at):
    embed(side)


DEEDS = (say, say, say, work, learn, forget, restore, purge, drop, fold, amend, make_vectors)
LIVES = st.lists(st.tuples(st.sampled_from(DEEDS), USERS, IDS, SESSIONS, TEXTS, TIMES), max_size=25)


def live(side, deeds):
    for deed, *what in deeds:
        try:
            deed(side, *what)
        except DuplicateId:
            continue  # the id, or a version, is taken


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(deeds=LIVES, session=SESSIONS)
def test_whatever_happened_the_copy_is_the_same(deeds, session):
    with tempfile.TemporaryDirectory() as folder, both_ends(f"{folder}/a", f"{folder}/b") as (here, there):
        live(here, deeds)
        copy_memory(here, there)
        assert whole(there) == whole(here)
        for user in here.database.users():
            assert found(there, "nginx 502", user) == found(here, "nginx 502", user)
            following = message("next", id="next", session=session, user=user, at=100)
            assert there.store.put([following]) == here.store.put([following])
        there.database.check()


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(deeds=LIVES, more=LIVES.map(lambda deeds: [deed for deed in deeds if deed[0] in (say, make_vectors)]))
def test_a_later_copy_brings_what_was_said_since(deeds, more):
    with tempfile.TemporaryDirectory() as folder, both_ends(f"{folder}/a", f"{folder}/b") as (here, there):
        live(here, deeds)
        copy_memory(here, there)
        live(here, more)
        copy_memory(here, there)
        assert whole(there) == whole(here)


def test_the_names_of_the_folder_do_not_matter(tmp_path):
    odd = Path(tmp_path) / "ein Ordner mit 空格 %20"
    odd.mkdir()
    with both_ends(odd / "a?b.db", odd / "c#d.db") as (here, there):
        say(here, "ana", "a", "s", "hi", 0)
        copy_memory(here, there)
        assert whole(there) == whole(here)
