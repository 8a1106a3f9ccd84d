"""The monitor of a memory: on by default, and under the names of the verbs."""

from doing import talk

from jiyi.monitor import Limits, Thresholds, find_hits
from jiyi.records import Budget


def test_the_monitor_sees_windows_replies_and_summaries(open_memory):
    memory = open_memory()
    talk(memory, 30)
    window = memory.build_context("s", "which port has service 7?", 3_000, task_type="conversation")
    memory.save_message("s", role="assistant", content="service 7 listens on port 9007")
    seen = memory.monitor.gauges("conversation")
    assert (seen.windows, seen.summaries) == (1, 1)
    assert seen.tokens.largest == window.report.tokens
    assert window.blocks
    assert open_memory(monitor=False).monitor is None


def test_a_reply_is_handed_over_under_the_session_id_of_the_verbs(open_memory, monkeypatch):
    asked = []

    def judge(question, blocks, reply):
        asked.append((question, reply))
        return find_hits(question, blocks, reply)

    strict = Thresholds(fewest=1, output_share=Limits(warning=0.1, critical=0.2))
    monkeypatch.setattr("jiyi.monitor.monitor.find_hits", judge)
    memory = open_memory(monitor_thresholds=strict)
    memory.save_message("old", role="user", content="service 7 listens on port 9007")
    budget = Budget(max_input_tokens=3_000, max_output_tokens=100)
    for user in ("ana", "bo"):
        memory.build_context("s", "which port has service 7?", budget, task_type="ops", user_id=user)
    answer = "It listens on port 9007."
    memory.monitor.reply("s", answer, usage={"prompt_tokens": 80, "completion_tokens": 30})
    memory.save_message("s", role="assistant", content=answer)
    seen = memory.monitor.gauges("ops")
    assert (seen.replies, seen.output_tokens.total, seen.output_share.largest) == (1, 30, 0.3)
    assert asked == [("which port has service 7?", answer)]
    assert [alert.name for alert in memory.monitor.alerts()] == ["output_share"]
