"""Alerts: each threshold, its two levels, and words that say what to do."""

import tomllib
from dataclasses import fields
from importlib.resources import files
from math import inf, nan

import pytest
from refusing import refused

from jiyi.errors import SettingsError
from jiyi.monitor import Alert, ContextMonitor, Limits, Thresholds
from jiyi.testing import ManualClock


def names(monitor: ContextMonitor) -> set[str]:
    return {alert.name for alert in monitor.alerts()}


FEW = Thresholds(fewest=4)


@pytest.fixture
def monitor():
    return ContextMonitor(thresholds=FEW, clock=ManualClock())


def only(monitor: ContextMonitor, name: str) -> Alert:
    found = [alert for alert in monitor.alerts() if alert.name == name]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("tokens", "level", "limit"), [(949, None, 0), (950, "warning", 0.95), (990, "critical", 0.99)]
)
def test_full_windows(monitor, window_of, tokens, level, limit):
    for _ in range(4):
        monitor.window(window_of(tokens=tokens), task_type="chat")
    if level is None:
        assert monitor.alerts() == ()
        return
    found = only(monitor, "context_share")
    expected = (level, limit, tokens / 1000, "chat")
    assert (found.level, found.threshold, found.value, found.task_type) == expected
    assert "raise max_input_tokens" in found.text


def test_few_windows_say_nothing(monitor, window_of):
    for _ in range(3):
        monitor.window(window_of("?", "a b c", tokens=1000), session_id="s", milliseconds=9999)
        monitor.summarised("s")
        monitor.reply("s", "no", usage={"completion_tokens": 5000})
    assert monitor.alerts() == ()
    monitor.window(window_of("?", "a b c", tokens=1000), session_id="s", milliseconds=9999)
    monitor.reply("s", "no", usage={"completion_tokens": 5000})
    assert names(monitor) == {"context_share", "hit_rate", "milliseconds", "output_share", "summaries"}


def test_long_replies_name_the_reserve_they_need(monitor, window_of):
    for tokens in (100, 120, 150, 210):
        monitor.window(window_of(), session_id="s")
        monitor.reply("s", "x", usage={"completion_tokens": tokens})
    found = only(monitor, "output_share")
    assert (found.level, found.value) == ("critical", 1.05)
    assert "set max_output_tokens to 218" in found.text
    assert monitor.gauges().output_reserve == 218


def test_task_types_are_looked_at_by_themselves_and_slow_windows_told(monitor, window_of):
    for _ in range(4):
        monitor.window(window_of(tokens=1000), task_type="full")
        monitor.window(window_of(tokens=10), task_type="empty")
    assert [alert.task_type for alert in monitor.alerts()] == ["full"]
    for _ in range(4):
        monitor.window(window_of(), milliseconds=600)
    found = only(monitor, "milliseconds")
    assert (found.level, found.threshold) == ("warning", 500)
    assert "600 ms" in found.text


@pytest.mark.parametrize(("used", "level"), [(0, "critical"), (1, "warning"), (2, None)])
def test_text_that_nobody_uses(monitor, window_of, used, level):
    for n in range(4):
        monitor.window(window_of("?", "the limit is 512m"), session_id="s")
        monitor.reply("s", "512m" if n < used else "no idea")
    if level is None:
        assert monitor.alerts() == ()
        return
    found = only(monitor, "hit_rate")
    assert (found.level, found.value) == (level, used / 4)
    assert found.threshold == (0.1 if level == "critical" else 0.3)
    assert "add a reranker" in found.text


def test_runs_that_drift_and_runs_that_fail(monitor, window_of):
    for session in ("away", "stuck", "fine"):
        monitor.window(window_of("write the sales report"), task_type="office", session_id=session)
    for text in ("order flowers", "call a taxi", "water the lawn", "bake bread", "feed cats", "buy milk"):
        monitor.step("away", text)
        monitor.step("fine", f"sales report: {text}")
    for _ in range(3):
        monitor.step("stuck", "open the sales report", ok=False)
    away, stuck = only(monitor, "drift"), only(monitor, "failures")
    assert (away.session_id, away.level, away.task_type) == ("away", "critical", "office")
    assert "put the request before the model again" in away.text
    assert "buy milk" in away.text
    assert (stuck.session_id, stuck.level, stuck.value) == ("stuck", "warning", 3)
    assert "another way" in stuck.text
    assert [alert.level for alert in monitor.alerts()] == ["critical", "warning"]
    for _ in range(2):
        monitor.step("stuck", "open the sales report", ok=False)
    assert only(monitor, "failures").level == "critical"


def test_thresholds_are_held_have_words_and_must_be_positive(window_of):
    monitor = ContextMonitor(thresholds=Thresholds(fewest=1, context_share=Limits(warning=0.1, critical=0.2)))
    monitor.window(window_of(tokens=150))
    assert only(monitor, "context_share").level == "warning"
    refused(SettingsError, "fewest", Thresholds, fewest=0)
    limits = {field.name for field in fields(Thresholds) if isinstance(field.default, Limits)}
    assert set(tomllib.loads((files("jiyi.monitor") / "alerts.toml").read_text("utf-8"))) == limits


@pytest.mark.parametrize("name", [field.name for field in fields(Thresholds) if field.name != "fewest"])
@pytest.mark.parametrize("limits", [(1.0, nan), (inf, inf), None])
def test_limits_that_cannot_be_meant(name, limits):
    if limits is None:  # the wrong way round
        own: Limits = getattr(Thresholds(), name)
        limits = (own.critical, own.warning)
    refused(SettingsError, name, Thresholds, **{name: Limits(warning=limits[0], critical=limits[1])})
