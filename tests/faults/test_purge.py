"""Purged: afterwards no byte of it is anywhere in the folder."""

import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from forgettable import ANA, LATER, NOON, Memory, lesson, words
from refusing import raises, refused

from jiyi.errors import DatabaseLocked, NotFound, WrongState
from jiyi.long_term import Indexer
from jiyi.records import Fact, Scope
from jiyi.storage import SqliteDatabase, SqliteVectors
from jiyi.testing import HashEmbedder

LATIN, HAN = "zyxomarkerqwv", "魑魅魍魉标记"
MARKS = (LATIN, HAN)
HOLDER = Path(__file__).with_name("reader_to_hold.py")


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "memory"
    made.mkdir()
    return made


@pytest.fixture
def memory(folder):
    database = SqliteDatabase(folder / "agent.db", lock_timeout=1.0)
    yield Memory(database)
    database.close()


def marked(folder):
    """The files in which a marker's bytes stand, in any usual form."""
    forms = {form for mark in MARKS for form in (mark, mark.upper(), mark[:-1])}
    needles = [form.encode(code) for form in forms for code in ("utf-8", "utf-16-le", "utf-16-be")]
    needles += [repr(form.encode("unicode_escape"))[2:-1].encode() for form in forms if not form.isascii()]
    return [
        file.name
        for file in sorted(folder.rglob("*"))
        if file.is_file() and any(needle in file.read_bytes() for needle in needles)
    ]


def clean(memory, folder):
    assert memory.words_found(f"{LATIN} {HAN}") == []
    assert marked(folder) == []
    memory.database.close()
    assert marked(folder) == []
    assert "is sound" in SqliteDatabase(folder / "agent.db").check()


def fill(memory, text=f"{LATIN} {HAN}", session="s"):
    """Put the text into every place that holds text; return ids by which all of it can be asked for."""
    said = memory.say(f"说 {text}", session, name=LATIN)
    memory.call(f"c-{session}", session)
    memory.answer(f"c-{session}", f"结果 {text}", session)
    job = memory.working.start(
        ANA.in_session(session), text, target=text, tags=[text], context={text: [text]}
    )
    memory.working.add_step(ANA, job.id, text, tool_name=text, args={text: text}, result=text)
    ended = [memory.do(text, f"step {text}", target=text, session=session, summary=text) for _ in range(3)]
    memory.consolidation.run(ANA)
    fact = Fact(
        scope=ANA.in_session(session), subject=text, predicate=text, object=text, text=text, speaker=text,
        sources=(said.id,), created_at=NOON,
    )  # fmt: skip
    memory.store.put([fact, lesson(text, ended, id=f"k-{session}")])
    memory.fold(said, text=f"总结 {text}", scope=ANA.in_session(session))
    return said


def test_a_session_leaves_no_byte(memory, folder):
    fill(memory)
    kept = memory.say("别的会话", "two")
    Indexer(SqliteVectors(memory.database), HashEmbedder()).flush()
    assert marked(folder)
    receipt = memory.purge(scope=ANA.in_session("s"))
    assert receipt.erased >= receipt.total > 10
    assert not any(item.text for item in receipt.items)
    assert memory.find("message") == [kept]
    assert memory.in_trash() == set()
    clean(memory, folder)


def test_summaries_of_any_length_leave_no_byte(memory, folder):
    for message in [memory.say(f"{LATIN} 第 {n} 句 {HAN}", at=n, learn=False) for n in range(60)][:-1]:
        memory.fold(message, text=f"{LATIN} 总结 {HAN} " + "z" * 9_000)
    kept = memory.say("bleibt", "two", learn=False)
    standing = memory.fold(kept, text="bleibt", scope=ANA.in_session("two"))
    assert marked(folder)
    receipt = memory.purge(query=words(LATIN))
    assert receipt.counts == {"message": 60, "summary": 59}
    assert receipt.erased == 119
    assert memory.find("summary") == [standing]
    clean(memory, folder)


def test_a_summary_goes_with_a_message_that_lay_in_the_trash_and_with_one_that_is_no_more(memory, folder):
    first, second = memory.say(f"{LATIN} eins", learn=False), memory.say(f"{HAN} zwei", at=1, learn=False)
    memory.fold(first, text=LATIN)
    memory.trash.discard(ANA, [("message", first.id)], reason="old", at=LATER)
    receipt = memory.purge(ids=[first.id])
    assert (receipt.counts, receipt.erased) == ({"summary": 1}, 2)
    assert marked(folder) == ["agent.db"], "the other message"
    memory.fold(second, text=f"{HAN} 三")
    memory.store.delete(replace(words(""), kinds=("message",), ids=(second.id,)))
    assert memory.purge(query=words(HAN)).counts == {"summary": 1}
    clean(memory, folder)


def test_by_words_and_by_ids_and_a_whole_user(memory, folder):
    fill(memory)
    found = memory.purge(query=words(LATIN))
    assert found.counts["message"] == 3, "what was said, and the tool's answer with its call"
    rest = memory.find()
    assert not [r for r in rest if LATIN in str(r)], rest
    assert marked(folder) == []
    fill(memory, session="two")
    memory.purge(ids=[r.id for r in memory.find("message", "task", "episode", "knowledge", "fact")])
    assert marked(folder) == []
    fill(memory, session="three")
    memory.say("别人的", scope=Scope(user_id="ben"))
    memory.purge()
    assert len(memory.find("message", scope=Scope(user_id="ben"))) == 1
    clean(memory, folder)


def test_what_lies_in_the_trash_goes_too_however_it_came_there(memory, folder):
    said = fill(memory)
    memory.forget(ids=[said.id], reason=f"because of {LATIN}")
    fact = Fact(scope=ANA, subject=HAN, predicate="p", object="o", sources=(said.id,), created_at=NOON)
    memory.store.put([fact])
    memory.trash.discard(ANA, [("fact", fact.id)], reason="by the gate", at=LATER)
    memory.forget(query=words(LATIN))
    assert marked(folder)
    assert memory.purge(query=words(LATIN)).erased >= 10
    clean(memory, folder)


def test_a_source_in_the_trash_takes_what_rests_on_it(memory, folder):
    """The gate may have dropped a message while facts still rest on it."""
    said = memory.say(f"说 {LATIN} {HAN}", learn=False)
    memory.store.put(
        [Fact(scope=ANA, subject=LATIN, predicate="p", object="o", sources=(said.id,), created_at=NOON)]
    )
    memory.trash.discard(ANA, [("message", said.id)], reason="old", at=LATER)
    receipt = memory.purge(ids=[said.id])
    assert (receipt.counts, receipt.erased) == ({"fact": 1}, 2)
    clean(memory, folder)


def test_a_fact_and_a_knowledge_that_stay_hold_no_word_of_it(memory, folder):
    first = memory.say(f"nginx {HAN} 的监听端口是 8080，{LATIN}")
    memory.say("nginx 的监听端口是 8080", at=5)
    whence = {"sources": tuple(m.id for m in memory.find("message")), "text": first.text, "created_at": NOON}
    fact = Fact(scope=ANA, subject=f"nginx {HAN}", predicate="监听端口", object="8080", **whence)
    episodes = [memory.do(f"nginx 报 502 {w}", "重启", target="nginx") for w in (HAN, LATIN, "丙", "丁")]
    memory.consolidation.run(ANA)
    known = memory.find("knowledge")[0]
    memory.store.put([fact, replace(known, content=f"{known.content} {HAN} {LATIN}")])
    memory.purge(ids=[first.id, episodes[0].id, episodes[1].id])
    assert [f.object for f in memory.find("fact")] == ["8080"]
    assert memory.find("knowledge")[0].source_episodes == (episodes[2].id, episodes[3].id)
    assert memory.in_trash() == set(), "older forms hold its words, too"
    clean(memory, folder)


def test_freed_pages_statistics_and_a_marker_that_is_a_term_only(memory, folder):
    for n in range(300):
        memory.say(f"{LATIN} 第 {n} 句 {HAN} " + "x" * 500, "big", learn=False)
    assert memory.store.delete(replace(words(""), kinds=("message",), limit=10_000)) == {"message": 300}
    memory.say(LATIN, "two", learn=False)
    with memory.database.write() as db:
        db.raw.execute("ANALYZE")
    assert marked(folder)
    memory.purge(query=words(LATIN))
    clean(memory, folder)


def test_purging_what_is_gone_already_still_overwrites(memory, folder):
    said = memory.say(f"{LATIN} {HAN}", learn=False)
    memory.store.delete(replace(words(LATIN), text="", kinds=("message",), ids=(said.id,)))
    assert marked(folder)
    assert memory.purge(query=words("别的")).total == 0
    clean(memory, folder)


def test_inside_a_transaction_it_is_refused(memory):
    memory.say(LATIN, learn=False)
    with memory.store.transaction(), pytest.raises(WrongState):
        memory.purge(query=words(LATIN))
    assert len(memory.find("message")) == 1


def test_a_reader_of_another_process_is_told_of_and_nothing_is_half_done(memory, folder):
    fill(memory)
    with holding(folder / "agent.db"):
        memory.say("something newer", "two")  # so that the reader's snapshot is an old one
        before = memory.everything()
        refused(DatabaseLocked, "purge again when it is done", memory.purge, query=words(LATIN))
        assert memory.everything() == before
        assert memory.in_trash() == set()
    memory.purge(query=words(LATIN))
    clean(memory, folder)


def test_a_reader_that_begins_at_the_last_moment(memory, folder, monkeypatch):
    fill(memory)
    monkeypatch.setattr(memory.trash, "check_alone", lambda: None)
    with holding(folder / "agent.db"):
        memory.say("something newer", "two")
        refused(DatabaseLocked, "old bytes may remain", memory.purge, query=words(LATIN))
        assert memory.words_found(LATIN) == []
    monkeypatch.undo()
    memory.purge(query=words(LATIN))
    clean(memory, folder)


def test_another_process_with_the_file_open_but_idle_does_no_harm(memory, folder):
    fill(memory)
    with holding(folder / "agent.db", "idle"):
        memory.purge(query=words(LATIN))
        assert marked(folder) == []


def killed(folder, stage):
    """Kill a purge at this point; its bytes are still there."""
    with holding(folder / "agent.db", stage):
        pass
    assert marked(folder)


@pytest.mark.parametrize("stage", ["before the commit", "before the overwriting"])
def test_killed_on_the_way_and_purged_again(folder, stage):
    """A file with a log that nobody folded in; a purge that did not end."""
    killed(folder, stage)
    memory = Memory(SqliteDatabase(folder / "agent.db"))
    assert len(memory.find("message")) == (1 if stage == "before the commit" else 0)
    memory.purge(query=words(LATIN))
    clean(memory, folder)


def test_killed_before_the_overwriting_the_next_open_finishes_it(folder, open_memory):
    killed(folder, "before the overwriting")
    memory = open_memory(folder / "agent.db")
    assert marked(folder) == []
    assert not memory.parts.long_term.forgetting.trash.overwrite_pending
    memory.close()
    assert marked(folder) == []


@pytest.mark.parametrize("finish", ["maintain", "purge"])
def test_what_another_reader_kept_from_being_overwritten_is_finished_later(folder, open_memory, finish):
    killed(folder, "before the overwriting")
    with holding(folder / "agent.db"):
        memory = open_memory(folder / "agent.db", user_id="ana", lock_timeout=0.2)
        assert memory.session_messages("s") == []
        assert marked(folder)
    if finish == "maintain":
        memory.maintain()
    else:  # by the same id, which is not there any more
        receipt = memory.forget(ids="gone", purge=True)
        assert (receipt.total, receipt.overwritten) == (0, True)
        raises(NotFound, memory.forget, ids="gone", purge=True)
    assert marked(folder) == []


def test_temporary_files_of_the_overwriting_hold_none_of_it(memory, folder, monkeypatch, tmp_path):
    """The copy that takes the file's place is made elsewhere first: only what stays is in it."""
    seen = []
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("SQLITE_TMPDIR", str(temporary))
    fill(memory)
    for n in range(200):
        memory.say("bleibt " + "y" * 2_000 + str(n), "two", learn=False)

    def look(*args):
        for entry in Path("/proc/self/fd").iterdir():
            try:
                name = str(entry.readlink())
                if "etilqs" in name or str(temporary) in name:
                    seen.append(Path(f"/proc/self/fd/{entry.name}").read_bytes())
            except OSError:
                continue
        return False

    with memory.database._exclusive() as db:
        db.execute("PRAGMA cache_size=10")  # pages: more than these goes into the temporary file
        db.set_progress_handler(look, 500)
    memory.purge(query=words(LATIN))
    with memory.database._exclusive() as db:
        db.set_progress_handler(None)
    assert any(b"bleibt" in data for data in seen), "looked at the wrong files"
    assert not [data for data in seen if any(mark.encode() in data for mark in MARKS)]
    assert list(temporary.iterdir()) == []
    clean(memory, folder)


@contextmanager
def holding(path, how="reading"):
    """Another process that reads the file, has it open only, or has stopped in a purge; it is killed."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, str(HOLDER), str(path), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout.readline() == "now\n"
            yield
        finally:
            process.kill()
