"""The life of a memory by the verbs: it learns, lets go, and is carried away whole."""

import json
from datetime import UTC, datetime, timedelta

from doing import counts, say, work
from refusing import refused
from scripted_chat import ScriptedChat, says

from jiyi.errors import InputError, NotFound, StorageError
from jiyi.long_term import ForgetRule

START = datetime(2026, 1, 5, 9, tzinfo=UTC)  # of the clock
DAY = timedelta(days=1)


def test_a_year(open_memory, clock, path):
    """Every month something is done and something changes; in the end the memory knows what holds."""
    memory = open_memory(clock=clock, timezone="UTC", forget_rule=ForgetRule(max_episodes=20))
    for month in range(12):
        say(memory, f"edge-02 的端口改成 {8000 + month} 了", session=f"month {month}")
        for number in range(4):
            work(memory, target="the nginx container" if number % 2 else "nginx 容器", fails=number == 3)
            clock.forward(days=7)
        memory.flush()
        assert memory.maintain().consolidation is not None
        assert len(memory.episodes()) <= 20
    (knowledge,) = memory.knowledge()
    assert knowledge.confidence > 0.7
    (fact,) = memory.facts("edge-02")
    assert fact.object == "8011"
    assert len(memory.history("edge-02")) == 12
    for month in range(12):
        at = START + month * 4 * 7 * DAY + DAY
        assert [f.object for f in memory.facts("edge-02", as_of=at)] == [str(8000 + month)]
    assert memory.search("edge-02 现在的端口", kinds="fact")[0].record.id == fact.id
    assert counts(memory)["message"] == 12, "messages are left alone"
    again = memory.maintain()
    assert (again.gate.total, again.consolidation.groups, again.expired) == (0, (), 0)


def test_maintenance_tells_how_far_it_is_and_a_dry_run_changes_nothing(memory, clock):
    for _ in range(3):
        work(memory, target="nginx")
    work(memory, "an old failure", fails=True, target="db-1")
    memory.remember("the gate is open", valid_to=START + DAY)
    clock.forward(days=70)
    before = counts(memory), memory.episodes(), memory.facts()
    tried = memory.maintain(dry_run=True)
    assert (counts(memory), memory.episodes(), memory.facts()) == before
    assert (tried.expired, tried.consolidation, tried.gate.dry_run) == (0, None, True)
    told = []
    done = memory.maintain(progress=lambda *parts: told.append(parts))
    assert {part for part, _, _ in told} == {"forget gate", "consolidation"}
    assert told[0] == ("consolidation", 1, 1)
    assert done.gate.discarded == tried.gate.discarded
    assert [item.id for item in done.gate.items] == [item.id for item in tried.gate.items]
    assert (done.expired, done.consolidation.episodes) == (1, 3)


def test_the_gate_asks_the_rule_it_was_given(open_memory, clock):
    class Everything(ForgetRule):
        def importance(self, record, now):
            return 0.0

    memory = open_memory(clock=clock, forget_rule=Everything(min_age=timedelta(0)))
    kept, gone = work(memory, "keep me"), work(memory)
    assert memory.pin(kept.id) == 1
    clock.forward(hours=1)
    assert [item.id for item in memory.run_forget_gate(dry_run=True).items] == [gone.id]
    seen = []
    assert memory.run_forget_gate(progress=seen.append).discarded["episode"].values()
    assert seen
    assert [episode.id for episode in memory.episodes()] == [kept.id]
    assert memory.restore(gone.id).counts == {"episode": 1, "task": 1}
    assert memory.unpin(kept.id) == 1
    assert memory.run_forget_gate().total == 4


def test_the_gate_follows_the_settings(open_memory, clock):
    rules = {"forget_threshold": 0.5, "forget_min_age_days": 2, "forget_grace_days": 1}
    memory = open_memory(clock=clock, forget_weights={"success": -0.2}, **rules)
    gone = work(memory)
    clock.forward(days=1)
    assert memory.run_forget_gate().total == 0
    clock.forward(days=2)
    assert [item.id for item in memory.run_forget_gate().items] == [gone.id]
    clock.forward(days=1, hours=1)
    assert memory.run_forget_gate().erased == 2


def test_a_note_of_the_task_says_what_it_was_about(open_memory):
    memory = open_memory(consolidation_target_key="host", consolidation_min_episodes=2)
    made = [work(memory, context={"host": name}) for name in ("edge-02", "Edge 02")]
    assert work(memory, context={"host": "edge-02"}, target="mail-01").target == "mail-01"
    assert work(memory, context={"host": ["edge-02"]}).target is None
    assert [episode.target for episode in made] == ["edge-02", "Edge 02"]
    (group,) = memory.run_consolidation().groups
    assert set(memory.get(group.knowledge_id).source_episodes) == {episode.id for episode in made}


def test_alike_experiences_become_knowledge_that_is_found(memory):
    made = [work(memory, target=name) for name in ("nginx 容器", "nginx container", "the nginx container")]
    steps = []
    receipt = memory.run_consolidation(progress=lambda done, total: steps.append((done, total)))
    assert (steps, receipt.methods) == ([(1, 1)], {"extractive": 1})
    memory.flush()
    (hit,) = memory.search_knowledge("nginx container")
    assert hit.record == memory.get(receipt.created[0])
    assert set(hit.record.source_episodes) == {episode.id for episode in made}
    assert [hit.kind for hit in memory.search_episodes("nginx", limit=2)] == ["episode"] * 2
    made.append(work(memory, target="nginx 容器"))
    assert memory.run_consolidation().updated == receipt.created
    assert memory.run_consolidation().groups == ()
    forgotten = memory.forget(ids=[episode.id for episode in made])
    assert forgotten.counts == {"episode": 4, "task": 4, "knowledge": 1}
    assert memory.knowledge() == []


def test_lessons_are_in_the_words_of_the_model(open_memory, llm_at, clock):
    lesson = {"topic": "nginx", "content": "A restart helps.", "key_points": ["Restart."], "confidence": 0.9}
    with ScriptedChat(says(json.dumps(lesson))) as server:
        memory = open_memory(clock=clock, llm=llm_at(server.url, timeout=5))
        for _ in range(3):
            work(memory, target="nginx")
        assert len(server.asked) == 0, "tasks ask nobody"
        assert memory.run_consolidation().methods == {"llm": 1}
        assert memory.knowledge()[0].content == "A restart helps."


def test_pins_are_for_all_kinds_or_for_none(memory):
    said, episode = say(memory, "keep this"), work(memory)
    fact = memory.remember("buy milk").new[0]
    assert memory.pin([said.id, episode.id, fact, fact]) == 3
    assert memory.recent_messages("s")[0].pinned
    assert memory.get(episode.id).pinned
    assert memory.get(fact).pinned
    refused(NotFound, "nowhere", memory.unpin, [said.id, "nowhere"])
    assert memory.recent_messages("s")[0].pinned
    assert memory.unpin((said.id, fact)) == 2
    assert not memory.recent_messages("s")[0].pinned


def test_exports_to_read_follow_the_settings_and_replace_no_database(memory, open_memory, tmp_path, path):
    say(memory, "nginx 又 502 了")
    file = tmp_path / "ana.md"
    assert memory.export(str(file), format="markdown").counts["message"] == 1
    assert file.read_text("utf-8").startswith("# ana 的记忆")
    open_memory(language="en").export(file, format="markdown")
    assert "# Memory of ana" in file.read_text("utf-8")
    for file, form, error, told in (
        (path, "jsonl", InputError, "is a database"),
        ("", "jsonl", InputError, "names no file"),
        (tmp_path / "x", "pdf", InputError, "neither jsonl nor markdown"),
        (tmp_path / "none" / "x", "jsonl", StorageError, "cannot be written"),
    ):
        refused(error, told, memory.export, file, format=form)
    assert len(memory.recent_messages("s")) == 1
    assert not (tmp_path / "x").exists()
