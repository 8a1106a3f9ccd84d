"""Export: text that Prometheus reads, and metrics that OpenTelemetry collects."""

import re
import sys
from typing import Any

import pytest
from refusing import refused
from tables import read_tables

from jiyi.errors import MissingExtra
from jiyi.long_term import ReadingState
from jiyi.monitor import ContextMonitor, otel_metrics, prometheus_text
from jiyi.records import Window
from jiyi.testing import ManualClock

ODD = 'a "b"\\c\nd 中文'

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def monitor(window_of):
    """Two task types with known figures."""
    monitor = ContextMonitor(clock=ManualClock())
    shown = window_of("why 502?", "the limit was 512m", "lunch at noon", tokens=400, saved={"skills": 70})
    fill(monitor, shown)
    monitor.summarised("s")
    return monitor


def fill(monitor: ContextMonitor, shown: Window) -> None:
    for kind, session in (("ops", "s"), (ODD, "t")):
        monitor.window(shown, task_type=kind, session_id=session, milliseconds=12.5)
        monitor.reply(session, "because of 512m", usage={"completion_tokens": 50})
        monitor.step(session, "look at 502", ok=session == "s")


def parsed(text: str) -> Samples:
    """What Prometheus' own reader makes of a text."""
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is not installed")
    found: Samples = {}
    for family in parser.text_string_to_metric_families(text):
        assert family.documentation
        assert family.type in ("counter", "gauge", "summary")
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, "a sample twice"
            found[key] = sample.value
    return found


def at(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def test_prometheus_reads_what_was_measured(monitor):
    found = parsed(prometheus_text(monitor))
    for kind, summaries, ok in (("ops", 1, 1), (ODD, 0, 0)):
        for name, label, value, number in read_tables(__file__)["samples of each task type"]:
            labels = {label: value} if label else {}
            assert at(found, name, task_type=kind, **labels) == float(number)
        assert at(found, "jiyi_summaries_total", task_type=kind) == summaries
        assert at(found, "jiyi_run_steps_total", task_type=kind, ok="true") == ok
        assert at(found, "jiyi_run_steps_total", task_type=kind, ok="false") == 1 - ok
        assert ("jiyi_run_drift_ratio", frozenset({("task_type", kind)})) in found


def test_the_text_keeps_to_the_format(monitor):
    """As the format's description says, checked without any reader of it."""
    value = r"[+-]?(?:\d+(?:\.\d+)?(?:e[+-]\d+)?|NaN|Inf)"
    label = r'[a-z_]+="(?:[^"\\\n]|\\[\\"n])*"'
    sample = re.compile(rf"(jiyi_[a-z_]+)\{{{label}(?:,{label})*\}} {value}")
    text = prometheus_text(monitor)
    assert text.endswith("\n")
    metric, seen = "", set()
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("# HELP "):
            metric = line.split()[2]
            assert metric not in seen, "the lines of a metric stand together"
            seen.add(metric)
            assert re.fullmatch(rf"# TYPE {metric} (counter|gauge|summary)", lines[number + 1])
            assert not lines[number + 2].startswith("#"), "no metric without samples"
            assert metric.endswith("_total") == lines[number + 1].endswith("counter")
        elif not line.startswith("# TYPE "):
            found = sample.fullmatch(line)
            assert found, line
            assert re.fullmatch(rf"{metric}(_sum|_count)?", found[1])


def test_prometheus_reads_how_the_background_reader_stands():
    state = ReadingState(
        waiting=7, calls=6, tokens=5, refused=4, passed_over=3, failures=2, error="down", again_at=None
    )
    found = parsed(prometheus_text(ContextMonitor(), state))
    figures = read_tables(__file__)["figures of the background reader"]
    assert {name: value for (name, _), value in found.items()} == {name: float(n) for name, n in figures}


def test_nothing_seen_gives_no_text_and_a_missing_package_is_named(monitor, monkeypatch):
    assert prometheus_text(ContextMonitor()) == ""
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    refused(MissingExtra, r'pip install "jiyi\[otel\]"', otel_metrics, monitor, None)


def test_what_is_not_known_has_no_sample(window_of):
    monitor = ContextMonitor()
    monitor.window(window_of())
    text = prometheus_text(monitor)
    assert "jiyi_retrieval_hit_ratio" not in text
    assert "jiyi_output_reserve_tokens" not in text
    assert 'jiyi_output_tokens_count{task_type=""} 0' in text
    assert 'jiyi_output_tokens{task_type="",quantile' not in text


def collected(reader: Any) -> dict[str, Any]:
    """The metrics of one collection by name."""
    data = reader.get_metrics_data()
    return {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}


def points(metric: Any) -> dict[frozenset[tuple[str, str]], Any]:
    return {frozenset(point.attributes.items()): point for point in metric.data.data_points}


def test_opentelemetry_collects_what_was_measured(window_of):
    sdk = pytest.importorskip("opentelemetry.sdk.metrics", reason="opentelemetry-sdk is not installed")
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    monitor, reader = ContextMonitor(clock=ManualClock()), InMemoryMetricReader()
    provider = sdk.MeterProvider([reader])
    otel_metrics(monitor, provider.get_meter("test"))
    shown = window_of("why 502?", "the limit was 512m", "lunch at noon", tokens=400, saved={"skills": 70})
    for _ in range(2):
        fill(monitor, shown)
    found = collected(reader)
    ops = frozenset({("task_type", "ops")})
    tokens = points(found["jiyi.context.tokens"])[ops]
    assert (tokens.count, tokens.sum, tokens.max) == (2, 800, 400)
    assert 500 in tokens.explicit_bounds
    duration = found["jiyi.context.build.duration"]
    assert duration.unit == "s"
    assert points(duration)[ops].sum == pytest.approx(0.025)
    assert points(found["jiyi.output.tokens"])[frozenset({("task_type", ODD)})].sum == 100
    assert points(found["jiyi.context.section.tokens"])[ops | {("section", "recalled")}].value == 400
    assert found["jiyi.context.section.tokens"].data.is_monotonic
    assert points(found["jiyi.context.saved.tokens"])[ops | {("by", "skills")}].value == 140
    assert points(found["jiyi.retrieved.blocks"])[ops | {("used", "true")}].value == 2
    assert points(found["jiyi.retrieval.hit.ratio"])[ops].value == 1.0
    assert points(found["jiyi.output.reserve.tokens"])[ops].value == 75
    assert points(found["jiyi.run.steps"])[ops | {("ok", "true")}].value == 2
    assert points(found["jiyi.runs.drifting"])[ops].value == 0
    fill(monitor, shown)
    assert points(collected(reader)["jiyi.context.tokens"])[ops].count == 3
    provider.shutdown()


def test_both_exports_name_the_same_figures(monitor):
    created: list[str] = []

    class Meter:
        def __getattr__(self, kind: str) -> Any:
            return lambda name, *_, **__: created.append(name)

    pytest.importorskip("opentelemetry.metrics", reason="opentelemetry-api is not installed")
    otel_metrics(monitor, Meter())
    named = {name.removesuffix("_total") for name in re.findall(r"# TYPE (\S+)", prometheus_text(monitor))}
    dotted = {name.replace(".", "_").replace("build_duration", "build_seconds") for name in created}
    assert named - dotted == {"jiyi_context_budget_ratio"}, "a ratio of two that are there"
    assert dotted <= named
