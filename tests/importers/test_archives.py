"""Samples of every program, zips that mean harm, and what several users or servers hold."""

import json
import os
import shutil
import sqlite3
import stat
import zipfile
from pathlib import Path

import psycopg
import pytest
from importers.damaged_variants import DAMAGES, damaged
from refusing import refused
from tables import read_tables

import jiyi
from jiyi.errors import ImportFailed
from jiyi.importers.databases import unpack
from jiyi.testing import HashEmbedder

SAMPLES = Path(__file__).parent / "samples"
OF_OTHERS = "threads and items of other users"


def zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def test_a_zip_is_read_as_its_folder(memory, tmp_path, monkeypatch):
    made = shutil.make_archive(str(tmp_path / "export"), "zip", SAMPLES / "claude")
    monkeypatch.chdir(SAMPLES / "claude")
    assert memory.import_(made).added == memory.import_(".").known == 11


def test_members_that_mean_harm_are_refused(memory, tmp_path):
    talks = (SAMPLES / "chatgpt" / "conversations.json").read_bytes()
    link = zipfile.ZipInfo("conversations-link.json")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    members = [
        ("conversations.json", talks),
        ("../conversations-up.json", talks),
        ("/conversations-root.json", talks),
        (link, "/etc/passwd"),
        ("conversations-bomb.json", b"[" + b" " * 30_000_000 + b"]"),
    ]
    done = memory.import_(zipped(tmp_path / "export.zip", members))
    assert (done.added, len(done.rejected)) == (8, 4)
    assert not (tmp_path.parent / "conversations-up.json").exists()


def test_what_cannot_be_read_is_said(memory, path, tmp_path):
    talks = (SAMPLES / "chatgpt" / "conversations.json").read_text("utf-8")
    for name, data, words in [
        ("utf16.json", talks.encode("utf-16"), "UTF-8"),
        (
            "cut.zip",
            zipped(tmp_path / "a.zip", [("conversations.json", talks)]).read_bytes()[:-40],
            "damaged zip",
        ),
        ("empty.zip", zipped(tmp_path / "b.zip", []).read_bytes(), "no folder or zip"),
        ("pages.sqlite", b"SQLite format 3\0" + b"\xff" * 4_000, "not a sound database"),
    ]:
        (tmp_path / name).write_bytes(data)
        refused(ImportFailed, words, memory.import_, tmp_path / name)
    refused(ImportFailed, "jiyi copy", memory.import_, path)


def test_a_cut_list_gives_what_came_before(memory, tmp_path):
    talks = (SAMPLES / "chatgpt" / "conversations.json").read_text("utf-8")
    (tmp_path / "cut.json").write_text(talks[:-20], "utf-8")
    done = memory.import_(tmp_path / "cut.json")
    assert (done.added, len(done.rejected)) == (7, 1)


@pytest.mark.parametrize("name", ["claude_code.jsonl", "server_memory.jsonl"])
def test_a_broken_line_costs_only_itself(users, tmp_path, name):
    first, *rest = (SAMPLES / name).read_bytes().splitlines()
    for torn in (first[:-9], b'{"type": ', b"no JSON"):
        (tmp_path / name).write_bytes(b"\n".join([first, torn, *rest]))
        done = users.import_(tmp_path / name, user_id=f"{torn!r} {name}")
        counts = [done.counts.get(kind, 0) for kind in ("message", "knowledge", "fact", "item")]
        assert (counts, len(done.rejected)) == (EXPECTED[name][:-1], 1), torn


@pytest.mark.parametrize(("agents", "wrong"), [('["x", null, {"name": "sam"}]', 3), ('"x"', 1), ("[]", 1)])
def test_agents_that_are_none_are_reported(memory, tmp_path, agents, wrong):
    (tmp_path / "a.af").write_text(f'{{"agents": {agents}, "blocks": [{{"label": "me", "value": "tea"}}]}}')
    done = memory.import_(tmp_path / "a.af")
    assert [one.where for one in done.rejected] == [f"a.af [0] agents[{n}]" for n in range(wrong)]
    assert done.counts == {"knowledge": 1}


def test_a_page_of_mem0_is_known_by_any_of_its_memories(memory, tmp_path):
    page = {"results": [{"id": "a"}, 5, {"id": "b", "memory": "tea"}]}
    (tmp_path / "page.json").write_text(json.dumps(page))
    assert memory.import_(tmp_path / "page.json").added == 1


def test_of_several_users_only_the_one_asked_for(memory, tmp_path):
    both = [{"id": name, "memory": f"I am {name}", "user_id": name} for name in ("ana", "bob")]
    (tmp_path / "all.json").write_text(json.dumps({"results": both}))
    done = memory.import_(tmp_path / "all.json")
    assert (done.added, dict(done.left_out)) == (1, {"memories of other users": 1})
    refused(ImportFailed, "2 users", memory.import_, tmp_path / "all.json", user_id="eve")
    shutil.copy(SAMPLES / "langgraph.sqlite", graph := tmp_path / "g.sqlite")
    with sqlite3.connect(graph) as db:
        owner = "json_object('user_id', iif(thread_id = 'thread-2', 'bob', 'ana'))"
        db.execute(f"UPDATE checkpoints SET metadata = CAST({owner} AS BLOB)")
    db.close()
    mine, theirs = memory.import_(graph), memory.import_(graph, user_id="bob")
    assert (mine.counts, dict(mine.left_out)) == ({"message": 6, "item": 1}, {OF_OTHERS: 1})
    assert (theirs.counts, dict(theirs.left_out)) == ({"message": 2}, {OF_OTHERS: 2})
    refused(ImportFailed, "2 users", memory.import_, graph, user_id="eve")


def test_objects_are_data_and_pickles_are_refused(memory, tmp_path):
    call = b"\x93\xa2os\xa6system\xa4true"  # ["os", "system", "true"]
    assert unpack(b"\xc7" + bytes([len(call), 0]) + call) == "true"
    keys = b"\x81" * 60 + b"\xa1'" + b'\xa1"' * 60  # maps as keys of maps: 122 bytes, and 2**60 quotes
    for bad in (b"\xdd\xff\xff\xff\xff", b"\x91" * 5_000, b"\xc1", b"", keys):
        refused(ValueError, "no MessagePack", unpack, bad)
    shutil.copy(SAMPLES / "langgraph.sqlite", tmp_path / "g.sqlite")
    with sqlite3.connect(tmp_path / "g.sqlite") as db:
        db.execute("UPDATE checkpoints SET type = 'pickle' WHERE thread_id = 'thread-2'")
    db.close()
    done = memory.import_(tmp_path / "g.sqlite")
    assert (done.added, ["run code" in one.reason for one in done.rejected]) == (7, [True])


@pytest.mark.slow
def test_a_database_of_langgraph_on_a_server(memory, empty_postgres_url):
    held = json.loads((SAMPLES / "langgraph_postgres.json").read_text("utf-8"))
    with psycopg.connect(empty_postgres_url) as db:
        db.execute(Path(__file__).with_name("langgraph_postgres.sql").read_bytes())
        for table, rows in held.items():
            for row in rows:
                last = "decode(%s, 'hex')" if table == "checkpoint_blobs" else "%s"
                db.execute(f"INSERT INTO {table} VALUES ({'%s, ' * (len(row) - 1)}{last})", row)
    done = memory.import_(empty_postgres_url)
    assert (done.counts, done.rejected) == ({"message": 8, "item": 1}, ())
    assert memory.import_(empty_postgres_url).known == 9
    with psycopg.connect(empty_postgres_url) as db:
        owner = "CASE thread_id WHEN 'thread-2' THEN 'bob' ELSE 'ana' END"
        db.execute(f"UPDATE checkpoints SET metadata = jsonb_build_object('user_id', {owner})")
    assert memory.import_(empty_postgres_url, user_id="bob").left_out == {OF_OTHERS: 2}
    refused(ImportFailed, "cannot be read", memory.import_, "postgresql://nobody:secret@127.0.0.1:1/none")


COUNTS = read_tables(__file__)["messages, knowledge, facts and items of a sample, and what is left out"]
EXPECTED = {name: [*map(int, counts)] for name, *counts in COUNTS}


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    """Give one memory for all samples, each of which goes in for users of its own."""
    path = tmp_path_factory.mktemp("m") / "m.db"
    with jiyi.open(path, user_id="ana", embedder=HashEmbedder(), background=False) as users:
        yield users


def state(memory, user):
    """Return everything there is of a user, as text."""
    sessions = memory.sessions(user_id=user)
    kept = [repr(m) for s in sessions for m in memory.session_messages(s.id, user_id=user)]
    every = ("active", "unsure", "superseded", "retracted", "expired")
    known = [*memory.knowledge(user_id=user), *memory.facts(status=every, user_id=user)]
    return [*kept, *map(repr, [*known, *memory.items(user_id=user)])]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_goes_in_once(users, name):
    user, (*kinds, left) = f"sample {name}", EXPECTED[name]
    counted = dict(zip(("message", "knowledge", "fact", "item"), kinds, strict=True))
    planned = users.import_(SAMPLES / name, dry_run=True, user_id=user)
    assert state(users, user) == []
    done = users.import_(SAMPLES / name, user_id=user)
    assert done.counts == planned.counts == {kind: count for kind, count in counted.items() if count}
    assert (sum(done.left_out.values()), done.rejected) == (left, ())
    before = state(users, user)
    again = users.import_(SAMPLES / name, user_id=user)
    assert (again.added, again.known, state(users, user)) == (0, sum(kinds), before)
    for session in users.sessions(user_id=user):
        assert users.build_context(session.id, query="tide", budget=4_000, user_id=user).messages


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_damage_harms_nothing(users, tmp_path, name):
    sample = SAMPLES / name
    for seed in range(DAMAGES):
        target, user = tmp_path / f"{seed}-{name}", f"{name} {seed}"
        if sample.is_dir():
            shutil.copytree(sample, target)
            inner = sorted(target.iterdir())[seed % 3 % len(os.listdir(target))]
            inner.write_bytes(damaged(inner.read_bytes(), seed))
        else:
            target.write_bytes(damaged(sample.read_bytes(), seed))
        try:
            first = users.import_(target, user_id=user)
        except ImportFailed:
            assert not users.sessions(user_id=user)
            continue
        before = state(users, user)
        again = users.import_(target, user_id=user)
        assert (again.added, again.known) == (0, first.added + first.known)
        assert state(users, user) == before


@pytest.mark.skipif("JIYI_TEST_SAMPLES" not in os.environ, reason="JIYI_TEST_SAMPLES names no folder")
def test_agent_files_that_others_published(users):
    files = sorted(Path(os.environ["JIYI_TEST_SAMPLES"]).glob("**/*.af"))
    assert files
    for file in files:
        done = users.import_(file, user_id=file.name)
        assert done.added + sum(done.left_out.values()) > 0, file
        assert done.rejected == ()
