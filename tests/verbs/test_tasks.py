"""Tasks that change while they run, by the verbs, on a file and on a server."""

import pytest
from refusing import refused

from jiyi.errors import InputError, NotFound, WrongState


@pytest.fixture
def memory(open_memory, place):
    return open_memory(place)


def test_a_task_and_its_steps_change_while_it_runs(memory):
    task = memory.start_task("s", "修复 502", target="web-7", context={"ticket": 7})
    step = memory.add_step(task.id, "看日志")
    memory.update_task(task.id, goal="修复 502 和 504", context={"cause": "内存不足"})
    memory.update_task(task.id, summary="找到了原因")
    memory.update_step(step.id, description="看最近一小时的日志", result="OOM", status="completed")
    stored = memory.get(task.id)
    assert (stored.request, stored.summary, stored.target) == ("修复 502 和 504", "找到了原因", "web-7")
    assert stored.context == {"ticket": 7, "cause": "内存不足"}
    assert [(one.description, one.result) for one in stored.steps] == [("看最近一小时的日志", "OOM")]
    shown = memory.build_context("s", "到哪一步了？").markdown
    for line in (
        "请求：修复 502 和 504",
        "状态：进行中",
        "背景：ticket：7；cause：内存不足",
        "进展：找到了原因",
    ):
        assert line in shown
    assert "1. [完成] 看最近一小时的日志 -> OOM" in shown
    memory.complete_task(task.id)
    refused(WrongState, "already completed", memory.update_task, task.id, goal="again")
    refused(NotFound, "no-such", memory.update_task, "no-such", goal="x")
    refused(InputError, "nothing to change", memory.update_task, task.id)


def test_only_a_new_status_is_news_to_the_monitor(open_memory):
    memory = open_memory(monitor=True)
    told = []
    memory.monitor.step = lambda *given, **named: told.append(given)
    step = memory.add_step(memory.start_task("s", "x").id, "look", status="completed")
    memory.update_step(step.id, description="look again")
    assert len(told) == 1
