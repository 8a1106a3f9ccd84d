"""The monitor: figures that add up, from many threads, within bounded memory."""

import gc
import threading
import tracemalloc
from math import ceil
from typing import Any

import pytest
from at_once import at_once
from hypothesis import given
from hypothesis import strategies as st
from refusing import refused

from jiyi.errors import InputError, SettingsError
from jiyi.monitor import ContextMonitor
from jiyi.monitor.figures import RecentValues
from jiyi.monitor.hits import Hit, Hits
from jiyi.monitor.monitor import OTHER
from jiyi.records import SECTIONS, Window
from jiyi.testing import ManualClock


@pytest.fixture
def monitor() -> ContextMonitor:
    return ContextMonitor(clock=ManualClock())


def test_nothing_seen_is_nothing_said_and_keep_must_keep_something(monitor):
    found = monitor.gauges()
    assert (found.windows, found.replies, found.output_reserve, found.summary_rate) == (0, 0, 0, 0.0)
    assert (found.hit_rate, found.block_rate, found.drift) == (None, None, None)
    assert monitor.task_types == ()
    assert monitor.alerts() == ()
    refused(InputError, "none yet", monitor.gauges, "chat")
    refused(SettingsError, "keep must be at least 1", ContextMonitor, keep=0)


def test_a_window_and_its_reply(monitor, window_of):
    shown = window_of("why 502?", "the limit was 512m", "lunch at noon", tokens=400, saved={"skills": 70})
    monitor.window(shown, task_type="ops", session_id="s", milliseconds=12.5)
    monitor.reply("s", "because the limit is 512m", usage={"completion_tokens": 50})
    monitor.summarised("s")
    for found in (monitor.gauges(), monitor.gauges("ops")):
        assert (found.windows, found.replies, found.summaries) == (1, 1, 1)
        assert (found.tokens.mean, found.share.p50, found.milliseconds.p95) == (400, 0.4, 12.5)
        assert (found.output_tokens.total, found.output_share.largest) == (50, 0.25)
        assert found.output_reserve == 75
        assert found.sections == dict.fromkeys(SECTIONS, 0) | {"system": 100, "recalled": 200}
        assert found.saved == {"skills": 70}
        assert (found.judged, found.blocks_shown, found.blocks_used) == (1, 2, 1)
        assert (found.hit_rate, found.block_rate) == (1.0, 0.5)


def test_a_reply_is_compared_with_the_last_window_of_its_session(window_of, monkeypatch):
    asked: list[tuple[str, list[str], str]] = []

    def judge(question: str, blocks: Any, reply: str) -> Hits:
        asked.append((question, [block.text for block in blocks], reply))
        return Hits(blocks=(Hit(section="recalled", source_id="0", share=1.0, used=True),))

    monkeypatch.setattr("jiyi.monitor.monitor.find_hits", judge)
    monitor = ContextMonitor()
    monitor.window(window_of("one?", "a"), session_id="x")
    monitor.window(window_of("two?", "b"), session_id="x")
    monitor.window(window_of("three?", "c"), session_id="y")
    monitor.reply("y", "for y")
    monitor.reply("x", "for x")
    monitor.reply("x", "a second reply to the same window")
    monitor.reply("z", "to nothing")
    assert asked == [], "nothing is compared before someone asks"
    assert monitor.gauges().replies == 4
    assert asked == [("three?", ["c"], "for y"), ("two?", ["b"], "for x")]
    assert monitor.gauges().judged == len(asked) == 2


def test_tokens_are_counted_where_they_are_not_given(monitor):
    monitor.reply("", "the quick brown fox jumps over the lazy dog")
    assert 8 <= monitor.gauges().output_tokens.total <= 12


def test_the_question_is_the_last_user_message(monitor, window_of):
    shown = window_of("ignored")
    parts = [{"type": "text", "text": "repair the heating"}, {"type": "image_url", "image_url": {}}]
    messages = [{"role": "user", "content": "context"}, {"role": "user", "content": parts}]
    tool = {"role": "assistant", "content": None}
    monitor.window(Window(messages=[*messages, tool], markdown="", report=shown.report), session_id="s")
    for _ in range(5):
        monitor.step("s", "buy concert tickets")
    drift = monitor.drift("s")
    assert drift is not None
    assert drift.drifting


def test_a_run_is_measured_against_its_newest_request(monitor, window_of):
    def away(session: str) -> bool:
        found = monitor.drift(session)
        assert found is not None
        return found.drifting

    monitor.window(window_of("write the quarterly sales report"), session_id="s", task_type="office")
    for text in ("order flowers", "call a taxi", "water the lawn", "bake bread"):
        monitor.step("s", text)
    assert away("s")
    assert monitor.gauges("office").drifting == 1
    monitor.window(window_of("go on"), session_id="s", task_type="office")
    monitor.step("s", "feed the cat")
    assert away("s"), "going on asks for nothing new"
    monitor.window(window_of("bake bread and feed the cat"), session_id="s", task_type="office")
    for text in ("bake bread", "feed the cat", "bake more bread", "feed the cat again"):
        monitor.step("s", text, ok=text != "bake bread")
    assert not away("s")
    found = monitor.gauges()
    assert (found.steps, found.failed_steps, found.drifting) == (9, 1, 0)
    assert found.drift is not None
    assert found.drift < 0.2


def test_a_run_without_steps_is_over_after_half_an_hour(window_of):
    clock = ManualClock()
    monitor = ContextMonitor(clock=clock)
    monitor.window(window_of("paint the fence"), session_id="s")
    monitor.step("s", "paint the fence")
    clock.forward(minutes=30)
    assert monitor.drift("s") is not None
    clock.forward(seconds=1)
    assert monitor.drift("s") is None
    assert monitor.gauges().drift is None
    assert monitor.drift("unknown") is None


@given(values=st.lists(st.integers(0, 10_000), min_size=1, max_size=120), keep=st.integers(1, 40))
def test_percentiles_are_exact_for_what_is_kept(values, keep):
    ring = RecentValues(keep)
    for value in values:
        ring.add(value)
    found, kept = ring.spread(), values[-keep:]
    assert (found.count, found.total) == (len(values), sum(values))
    assert found.mean == pytest.approx(sum(kept) / len(kept))
    assert found.largest == max(kept)
    for value, part in ((found.p50, 0.5), (found.p95, 0.95)):
        assert value in kept
        assert sum(k <= value for k in kept) >= part * len(kept)
        assert sum(k < value for k in kept) < ceil(part * len(kept))


def test_many_threads_add_up(window_of):
    monitor = ContextMonitor(keep=10_000)
    shown = window_of("?", "the limit is 512m", tokens=40)
    rounds, workers = 300, 8
    seen: list[int] = []

    def work(number: int) -> None:
        session, kind = f"s{number}", f"t{number % 3}"
        for _ in range(rounds):
            monitor.window(shown, task_type=kind, session_id=session, milliseconds=2.0)
            monitor.reply(session, "512m", usage={"completion_tokens": 7})
            monitor.step(session, "look", ok=False)
            monitor.summarised(session)

    def watch() -> None:
        while not done.is_set():
            seen.append(monitor.gauges().judged)

    done, watcher = threading.Event(), threading.Thread(target=watch)
    watcher.start()
    at_once(work, range(workers))
    done.set()
    watcher.join()
    whole, parts = monitor.gauges(), monitor.by_task_type()
    total = rounds * workers
    assert (whole.windows, whole.replies, whole.summaries) == (total, total, total)
    assert (whole.steps, whole.failed_steps) == (total, total)
    assert (whole.tokens.total, whole.output_tokens.total) == (40 * total, 7 * total)
    assert whole.judged + whole.unjudged == total
    assert seen == sorted(seen)
    assert [part.task_type for part in sorted(parts, key=lambda p: str(p.task_type))] == ["t0", "t1", "t2"]
    for name in ("windows", "replies", "summaries", "steps", "judged", "unjudged", "blocks_used", "drifting"):
        assert getattr(whole, name) == sum(getattr(part, name) for part in parts), name
    assert whole.sections["recalled"] == sum(part.sections["recalled"] for part in parts) == 20 * total


@pytest.mark.slow
def test_memory_is_bounded(window_of):
    monitor = ContextMonitor(keep=20, clock=ManualClock())
    shown = [window_of(f"what is {n}?", f"the number {n} " * 20, tokens=n) for n in range(20)]

    def work(count: int) -> None:
        for n in range(count):
            session = f"session {n % 1500}"
            monitor.window(shown[n % 20], task_type=f"type {n % 70}", session_id=session, milliseconds=1.0)
            monitor.step(session, "step")
            monitor.reply(session, "the number", usage={"completion_tokens": 1})

    work(8_000)
    gc.collect()
    tracemalloc.start()
    try:
        work(1_500)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        work(5_000)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 5_000 * 8, "less than a reference for each window"
    found = monitor.gauges()
    assert (found.windows, found.judged) == (14_500, 100)
    assert found.unjudged == found.replies - 100


def test_task_types_beyond_fifty_are_counted_together(monitor, window_of):
    for n in range(60):
        monitor.window(window_of(), task_type=f"t{n}", session_id=f"s{n}")
        monitor.reply(f"s{n}", "ok", usage={"completion_tokens": 1})
    assert len(monitor.task_types) == 51
    assert (monitor.gauges(OTHER).windows, monitor.gauges(OTHER).replies) == (10, 10)
    refused(InputError, r"'t59'; there are 't0'", monitor.gauges, "t59")


def test_a_summary_belongs_to_the_task_type_of_its_session(monitor, window_of):
    monitor.window(window_of(), task_type="chat", session_id="s")
    monitor.summarised("s")
    monitor.summarised("s", task_type="code")
    monitor.summarised()
    assert [(g.task_type, g.summaries) for g in monitor.by_task_type()] == [("chat", 1), ("code", 1), ("", 1)]
    assert monitor.gauges("chat").summary_rate == 1.0


def test_listeners_hear_each_value(monitor, window_of):
    heard: list[tuple[str, float, str]] = []
    monitor.listen(lambda figure, value, kind: heard.append((figure, value, kind)))
    monitor.window(window_of(tokens=9), task_type="chat", session_id="s")
    monitor.window(window_of(tokens=8), task_type="chat", session_id="s", milliseconds=3.5)
    monitor.reply("s", "x", usage={"completion_tokens": 4})
    assert heard == [
        ("context_tokens", 9, "chat"),
        ("context_tokens", 8, "chat"),
        ("build_milliseconds", 3.5, "chat"),
        ("output_tokens", 4, "chat"),
    ]


def test_reset_forgets_all(monitor, window_of):
    monitor.window(window_of("why 502?", "1g"), task_type="chat", session_id="s")
    monitor.reply("s", "1g")
    monitor.step("s", "x")
    monitor.reset()
    monitor.reply("s", "to nothing", usage={"completion_tokens": 3})
    found = monitor.gauges()
    assert (found.windows, found.replies, found.steps, found.judged) == (0, 1, 0, 0)
    assert monitor.drift("s") is None
    assert monitor.task_types == ("",)
