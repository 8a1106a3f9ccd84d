"""Facts by the verbs: read as messages are saved, stated, asked for at any time, with and without a model."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from doing import say
from scripted_chat import ScriptedChat, says

from jiyi.long_term import FactMemory

START = datetime(2026, 1, 5, 9, tzinfo=UTC)  # of the clock
EMPTY = {"facts": [], "entities": [], "topics": [], "conclusions": []}


def values(facts):
    return [fact.object for fact in facts]


def test_what_is_said_is_known_at_once_and_says_where_it_is_from(memory):
    said = say(memory, "edge-02 的端口是 8443")
    (fact,) = memory.facts()
    assert (fact.object, fact.sources, fact.created_at) == ("8443", (said.id,), START)
    assert memory.stats()["fact"] == 1
    assert memory.search("edge-02 端口", kinds="fact")[0].record == memory.get(fact.id)


def test_facts_of_one_message_are_listed_as_they_are_said(memory):
    say(memory, "The port of ab is 1. The port of cd is 2. The port of ef is 3. The port of gh is 4.")
    assert values(memory.facts()) == ["1", "2", "3", "4"]


def test_a_value_lives_and_is_followed_by_another(memory, clock):
    say(memory, "edge-02 的端口是 8443")
    changed = clock.forward(days=30)
    say(memory, "edge-02 的端口改成 8444 了")
    clock.forward(days=30)
    old, new = memory.history("edge-02")
    assert (old.status, old.valid_to, old.superseded_by) == ("superseded", changed, new.id)
    assert (new.status, new.supersedes) == ("active", old.id)
    assert memory.facts("edge-02") == [new]
    assert memory.facts("edge-02", status="superseded") == [old]
    assert memory.facts("edge-02", status=["active", "superseded"]) == [old, new]
    for day, value in ((1, "8443"), (29, "8443"), (31, "8444"), (400, "8444")):
        assert values(memory.facts("edge-02", as_of=START + timedelta(days=day))) == [value], day
    assert memory.facts("edge-02", as_of=START - timedelta(days=1)) == []
    assert memory.history("edge-02", "port") == [old, new]
    assert memory.history("edge-02", "version") == []


def test_what_is_asked_or_supposed_is_no_fact(memory):
    for text in ("edge-02 的端口是 8443 吗？", "如果 edge-02 的端口是 8443 就好了", "Is my birthday May 4?"):
        say(memory, text)
    assert memory.facts() == []


def test_what_is_taken_back_is_retracted(memory, clock):
    say(memory, "我的生日是 5 月 4 日")
    clock.forward(minutes=1)
    say(memory, "算了，别记这个")
    assert memory.facts() == []
    (fact,) = memory.facts(status="retracted")
    assert "4" in fact.object
    assert memory.facts(as_of=clock()) == []


def test_without_learning_messages_are_not_read_until_asked(open_memory):
    memory = open_memory(learn_facts=False)
    said = say(memory, "edge-02 的端口是 8443")
    assert memory.facts() == []
    learned = memory.learn_facts("s")
    assert (learned.method, learned.notes) == ("patterns", ("no language model is set",))
    assert learned.new == (memory.facts()[0].id,)
    assert memory.facts()[0].sources == (said.id,)
    again = memory.learn_facts("s")
    assert (again.new, again.passed, again.facts) == ((), 1, ())


def test_only_the_newest_messages_of_one_session_are_read_again(open_memory):
    memory = open_memory(learn_facts=False)
    for number in range(5):
        say(memory, f"gw-{number} 的端口是 800{number}")
    say(memory, "gw-9 的端口是 9000", session="other")
    assert len(memory.learn_facts("s", limit=2).new) == 2
    assert sorted(values(memory.facts())) == ["8003", "8004"]
    assert memory.learn_facts("nowhere").facts == ()


def test_a_message_whose_facts_fail_is_not_saved(memory, monkeypatch):
    kept = say(memory, "edge-01 的端口是 8001", id="kept")
    before = memory.stats()

    def breaks(self, messages):
        read(self, messages)
        raise RuntimeError("no room")

    read = FactMemory.learn
    with monkeypatch.context() as patch:
        patch.setattr(FactMemory, "learn", breaks)
        for save in (
            lambda: say(memory, "edge-02 的端口是 8002", id="half"),
            lambda: memory.save_messages("s", [{"role": "user", "content": "edge-03 的端口是 8003"}]),
        ):
            with pytest.raises(RuntimeError, match="no room"):
                save()
    assert memory.stats() == before
    assert memory.recent_messages("s") == [kept]
    assert values(memory.facts()) == ["8001"]
    assert say(memory, "edge-02 的端口是 8002", id="half").seq == 1
    assert values(memory.facts()) == ["8001", "8002"]


def test_what_is_remembered_has_the_callers_word(memory, clock):
    (fact,) = memory.remember("我住在杭州", speaker="Ana", session_id="s").facts
    assert (fact.method, fact.speaker, fact.scope.session_id, fact.created_at) == ("said", "Ana", "s", START)
    assert fact.confidence >= 0.9
    clock.forward(days=1)
    newer = memory.remember(subject="Ana", predicate="住在", object="上海", category="profile")
    assert newer.superseded == (fact.id,)
    assert values(memory.facts("Ana")) == ["上海"]
    memory.flush()
    assert memory.search("上海", kinds="fact")[0].id == newer.new[0]


def test_what_is_remembered_may_hold_for_a_while(memory, clock):
    until = START + timedelta(days=3)
    memory.remember(subject="gw-1", predicate="port", object="8443")
    clock.forward(hours=1)
    memory.remember(subject="gw-1", predicate="port", object="9000", valid_from=clock(), valid_to=until)
    assert values(memory.facts("gw-1", as_of=START + timedelta(days=1))) == ["9000"]
    assert values(memory.facts("gw-1", as_of=until)) == ["8443"]
    clock.forward(days=9)
    assert memory.maintain().expired == 1
    assert values(memory.facts("gw-1")) == ["8443"]
    assert values(memory.facts("gw-1", status="expired")) == ["9000"]


def test_things_are_neighbours_by_facts(memory):
    memory.remember(subject="order-svc", predicate="runs on", object="web-7", category="relation")
    memory.remember(subject="web-7", predicate="is in", object="rack 12", category="relation")
    near, far = memory.neighbours("order-svc"), memory.neighbours("order-svc", 2)
    assert [(one.name, one.depth) for one in near] == [("web-7", 1)]
    assert [(one.name, one.depth) for one in far] == [("web-7", 1), ("rack 12", 2)]
    assert [one.name for one in memory.neighbours("rack 12", depth=5)] == ["web-7", "order-svc"]
    assert memory.neighbours("nothing like it") == []


def test_nobody_sees_the_facts_of_another_and_agents_know_their_own(memory):
    say(memory, "edge-02 的端口是 8443", user_id="ben")
    memory.remember(subject="edge-02", predicate="runs on", object="web-7", user_id="ben")
    assert len(memory.facts(user_id="ben")) == 2
    assert (memory.facts(), memory.history("edge-02"), memory.neighbours("edge-02")) == ([], [], [])
    assert memory.learn_facts("s").facts == ()
    assert list(memory.search("edge-02 端口")) == []
    memory.remember(subject="edge-02", predicate="端口", object="1")
    assert sorted(values(memory.facts(user_id="ben"))) == ["8443", "web-7"], "nor supersedes them"
    for agent, port in (("ops", "1111"), ("dev", "2222")):
        say(memory, f"gw-9 的端口是 {port}", agent_id=agent)
    assert values(memory.facts("gw-9", agent_id="ops")) == ["1111"]
    assert sorted(values(memory.facts("gw-9"))) == ["1111", "2222"]


@pytest.fixture
def with_llm(open_memory, llm_at, clock):
    """Open a memory with a language model at a URL."""

    def build(url, **options):
        return open_memory(clock=clock, timezone="UTC", llm=llm_at(url, **options), learn_facts=False)

    return build


def found(**fields):
    fact = {"message": 1, "subject": "edge-02", "predicate": "owner", "object": "Mei", "category": "relation"}
    more = {"quote": "ask Mei, she looks after it", "action": "state", "replaces": 0}
    return json.dumps(EMPTY | {"facts": [fact | more | fields]})


def test_a_model_finds_what_patterns_do_not(with_llm):
    with ScriptedChat(says(found())) as server:
        memory = with_llm(server.url)
        said = say(memory, "Whatever happens to edge-02, ask Mei, she looks after it")
        learned = memory.learn_facts("s")
        assert (learned.method, learned.notes) == ("llm", ())
        assert [(f.subject, f.object, f.sources, f.method) for f in memory.facts()] == [
            ("edge-02", "Mei", (said.id,), "llm")
        ]
        assert len(server.asked) == 1
        assert "ask Mei" in server.asked[0]["messages"][0]["content"]
