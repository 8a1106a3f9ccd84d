"""`jiyi copy` and `jiyi reembed`: to another database, to another embedder."""

import sqlite3

from jiyi.testing import HashEmbedder


def everything(run_json, place):
    return run_json("stats", "--db", place), run_json("search", "502", "--db", place)


def test_a_copy_finds_the_same(run, run_json, db, tmp_path):
    run("forget", "--id", "m-502", "--db", db, "--yes")
    target = tmp_path / "copy.db"
    shown = run("copy", db, target)
    assert "5 messages, 1 episode, 1 fact, 1 task and 1 in the trash copied" in shown.stdout
    assert "0 were there already, 7 got vectors" in shown.stdout
    assert everything(run_json, target) == everything(run_json, db)
    assert "1 message brought back" in run("restore", "m-502", "--db", target).stdout
    assert "trash" not in run("copy", db, tmp_path / "again.db", "--without-trash").stdout


def test_json_and_only_json(run_json, two_users, tmp_path):
    told = run_json("copy", two_users, tmp_path / "copy.db", "--user", "bob")
    assert (told["users"], told["added"]["message"]) == (["bob"], 1)
    assert told["checked"]["message"]["count"] == 1
    assert len(told["checked"]["message"]["digest"]) == 32
    assert run_json("copy", two_users, tmp_path / "copy.db")["known"] == 1


def test_another_memory_is_no_target_and_stays(run, run_json, db, open_memory, tmp_path):
    target = tmp_path / "copy.db"
    with open_memory(target) as other:
        other.save_message("s9", role="user", content="another", id="m-502")
    told = run("copy", db, target, code=1)
    assert "message m-502 differs from the source's" in " ".join(told.stderr.split())
    assert "another" in run("show", "m-502", "--db", target).stdout
    assert run_json("stats", "--db", target)["message"] == 1


def test_mistakes_are_told_briefly(run, db, tmp_path):
    assert "there is no database" in run("copy", tmp_path / "no.db", tmp_path / "to.db", code=1).stderr
    assert not (tmp_path / "to.db").exists()
    assert "both FROM and TO" in run("copy", db, db, code=1).stderr
    assert "'eve'" in run("copy", db, tmp_path / "to.db", "--user", "eve", code=1).stderr
    assert "names no backend" in run("copy", db, "mysql://host/db", code=2).stderr
    with sqlite3.connect(tmp_path / "foreign.db") as foreign:
        foreign.execute("CREATE TABLE t (x)")
    assert "another program" in run("copy", db, tmp_path / "foreign.db", code=1).stderr


def test_a_target_of_another_embedder_waits_for_vectors(run, db, open_memory, tmp_path):
    target = tmp_path / "copy.db"
    with open_memory(target, user_id="bob", embedder=HashEmbedder(dims=8)) as other:
        other.save_message("s", role="user", content="hi")
        other.flush()
    assert "jiyi reembed" in run("copy", db, target).stderr
    with open_memory(target, embedder=HashEmbedder(dims=8)) as memory:
        assert memory.stats()["vectors_pending"] == 8


def test_to_a_server_and_back(run, run_json, db, tmp_path, postgres_url):
    told = run_json("copy", db, postgres_url)
    assert told["vectors"] == 8
    back = tmp_path / "back.db"
    assert run_json("copy", postgres_url, back)["checked"] == told["checked"]
    assert everything(run_json, back) == everything(run_json, db)


def test_reembed(run, run_json, db, open_memory, monkeypatch):
    assert run_json("reembed", "--db", db) == {"embedded": 8}
    assert run("reembed", "--db", db).stdout == "8 records embedded\n"
    with open_memory() as memory:
        memory.save_message("s1", role="user", content="one more")
    assert run_json("reembed", "--db", db) == {"embedded": 1}
    monkeypatch.setattr("jiyi.wiring.embedder_for", lambda settings: HashEmbedder(dims=16))
    assert "reembed" in run("search", "502", "--db", db, code=1).stderr
    assert run_json("reembed", "--db", db) == {"embedded": 9}
    assert run_json("search", "502", "--db", db)["hits"]
