"""The verbs together: what is said, worked on, found again and put into a window."""

import pytest
from at_once import at_once
from refusing import refused

from jiyi.errors import DuplicateId

CALL = {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": '{"cmd": "restart"}'}}


def say(memory, *texts, session="s", **options):
    return [memory.save_message(session, role="user", content=t, **options) for t in texts]


def test_messages_are_stored_with_all_that_is_known_of_them_one_or_several(memory):
    given = {"role": "user", "content": "nginx 又 502 了", "name": "Ana", "meta": {"a": [1]}}
    saved = memory.save_message("s-42", given, importance=0.5, pinned=True)
    assert saved.to_dict() == given
    assert (saved.seq, saved.importance, saved.pinned) == (0, 0.5, True)
    assert saved.scope.session_id == "s-42"
    assert saved.tokens > 4
    assert memory.recent_messages("s-42") == [saved]
    assert memory.save_message("s-42", saved) == saved
    refused(DuplicateId, "is taken", memory.save_message, "elsewhere", saved)
    call = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
    saved = memory.save_messages("s", [{"role": "user", "content": "do"}, call, result])
    assert [m.seq for m in saved] == [0, 1, 2]
    assert [m.to_dict() for m in memory.recent_messages("s")] == [m.to_dict() for m in saved]
    assert memory.save_messages("s", []) == []


def test_sessions_are_listed_newest_first_stats_count_and_flush_finishes(memory):
    say(memory, "one", session="a")
    say(memory, "two", "three", session="b")
    assert [(s.id, s.messages) for s in memory.sessions()] == [("b", 2), ("a", 1)]
    assert [s.id for s in memory.sessions(limit=1)] == ["b"]
    none = dict.fromkeys(("task", "episode", "knowledge", "fact", "item", "summary"), 0)
    assert memory.stats() == none | {"message": 3, "session": 2, "vectors_pending": 3}
    assert memory.flush() == 3
    assert memory.stats()["vectors_pending"] == 0


def test_a_call_wins_over_what_open_said(open_memory):
    memory = open_memory(user_id="ana", agent_id="ops")
    say(memory, "for ben", user_id="ben", agent_id="coder")
    assert memory.stats()["message"] == 0
    assert memory.stats(user_id="ben")["message"] == 0, "the agent of open() still narrows"
    assert memory.stats(user_id="ben", agent_id="coder")["message"] == 1


def test_the_window_has_history_question_and_what_was_recalled(memory):
    say(memory, "上次 502 是磁盘满了，清理日志后恢复", session="last week")
    memory.save_message("s", role="system", content="be brief")
    say(memory, "nginx 又 502 了")
    memory.flush()
    window = memory.build_context("s", "502 怎么修？", budget=1000)
    assert [d["role"] for d in window.messages] == ["system", "user", "user", "user"]
    assert "· 用户] 上次 502 是磁盘满了" in window.messages[2]["content"]
    assert window.messages[-1] == {"role": "user", "content": "502 怎么修？"}
    assert window.report.tokens <= 1000
    assert "又 502" not in window.messages[2]["content"], "nothing is in the window twice"
    assert memory.recent_messages("s")[-1].content == "nginx 又 502 了", "a question is not saved"


def test_without_a_question_the_newest_user_message_is_it(memory):
    say(memory, "first", "second")
    memory.save_message("s", {"role": "assistant", "content": None, "tool_calls": [CALL]})
    memory.save_message("s", {"role": "tool", "tool_call_id": "c1", "content": "done"})
    window = memory.build_context("s", budget=500, system="be kind")
    assert [d["role"] for d in window.messages] == ["system", "user", "user", "user", "assistant", "tool"]
    assert window.messages[0]["content"] == "be kind"
    assert window.messages[3]["content"] == "second"
    assert memory.build_context("nothing yet", budget=100).messages == []
    last = memory.build_context("nothing yet", "hello", 100).messages[-1]
    assert last == {"role": "user", "content": "hello"}


@pytest.mark.slow
def test_threads_may_share_a_memory(open_memory):
    memory = open_memory(background=True)

    def work(number):
        for i in range(15):
            say(memory, f"thread {number} message {i}", session=f"s{number % 2}")
            memory.search("message", limit=3)
            memory.build_context(f"s{number % 2}", "message?", 400)
            memory.recent_messages(f"s{number % 2}")

    at_once(work, range(6))
    memory.flush()
    counted = memory.stats()
    assert (counted["message"], counted["session"], counted["vectors_pending"]) == (90, 2, 0)
    for session in ("s0", "s1"):
        assert memory.summary(session).upto_seq < 45


def test_recent_messages_are_the_newest_turns(open_memory):
    memory = open_memory(max_turns=3)
    say(memory, *(f"turn {i}" for i in range(10)))
    assert [m.content for m in memory.recent_messages("s")] == ["turn 7", "turn 8", "turn 9"]
    assert [m.content for m in memory.recent_messages("s", limit=2)] == ["turn 8", "turn 9"]
    assert memory.recent_messages("unknown") == []
