"""The figures for other systems: Prometheus text and OpenTelemetry metrics."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jiyi.errors import MissingExtra
from jiyi.long_term import ReadingState
from jiyi.monitor.figures import Gauges
from jiyi.monitor.monitor import ContextMonitor, Figure

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

__all__ = ["CONTENT_TYPE", "otel_metrics", "prometheus_text"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The Content-Type under which `prometheus_text` is to be served."""

_Labels = Mapping[str, str]
_Metric = Mapping[str, Any]  # see metrics.toml
_TOKEN_BUCKETS = (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000)
_SECOND_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_HISTOGRAMS: tuple[tuple[Figure, str, str, str, Sequence[float]], ...] = (
    ("context_tokens", "jiyi.context.tokens", "{token}", "Tokens of a window.", _TOKEN_BUCKETS),
    ("output_tokens", "jiyi.output.tokens", "{token}", "Tokens of a reply.", _TOKEN_BUCKETS),
    ("prompt_tokens", "jiyi.prompt.tokens", "{token}", "Tokens of a prompt.", _TOKEN_BUCKETS),
    ("build_milliseconds", "jiyi.context.build.duration", "s", "Time to build a window.", _SECOND_BUCKETS),
)
"""Figure, name, unit, help, buckets."""

_READING: tuple[tuple[str, str, str, Callable[[ReadingState], int]], ...] = (
    ("unread_messages", "gauge", "Messages the background reader has yet to read.", lambda r: r.waiting),
    (
        "reader_failures",
        "gauge",
        "Tries in a row for which the reader's model gave no answer.",
        lambda r: r.failures,
    ),
    ("reader_hour_calls", "gauge", "Calls of the reader in this hour.", lambda r: r.calls),
    ("reader_day_tokens", "gauge", "Tokens of the reader today, UTC.", lambda r: r.tokens),
    ("reader_refused_total", "counter", "Statements that the messages do not hold.", lambda r: r.refused),
    ("reader_passed_over_total", "counter", "Stretches that were given up.", lambda r: r.passed_over),
)
"""Name, kind, help, how to read it."""


def prometheus_text(monitor: ContextMonitor, reading: ReadingState | None = None) -> str:
    """Return the figures in Prometheus' text format 0.0.4, to be served as `CONTENT_TYPE`.

    Every name begins with ``jiyi_`` and has its unit; every sample is labelled with its
    ``task_type``, and there is none for all together: sum over the label. Quantiles are of
    the values the monitor keeps, ``_sum`` and ``_count`` of all since the start. A ratio
    that is not known yet has no sample.

    With ``reading``, from `memory.reading()`, also how the background reader stands, without labels:
    it is the same in every process on a database.

    Format: prometheus.io/docs/instrumenting/exposition_formats.
    """
    figures = monitor.by_task_type()
    lines: list[str] = []
    for name, metric in _metrics().items():
        kind = metric["kind"]
        named = f"jiyi_{name}_total" if kind == "counter" else f"jiyi_{name}"
        read = _summary if kind == "summary" else _samples
        samples = [line for one in figures for line in read(named, metric, one)]
        lines += _metric(named, kind, metric["help"], samples)
    if reading is not None:
        for name, kind, text, figure in _READING:
            lines += _metric(f"jiyi_{name}", kind, text, [f"jiyi_{name} {figure(reading)}"])
    return "".join(line + "\n" for line in lines)


def otel_metrics(monitor: ContextMonitor, meter: "Meter") -> None:
    """Register the figures with an OpenTelemetry meter (`pip install "jiyi[otel]"`).

    Histograms (``jiyi.context.tokens``, ``jiyi.context.build.duration``,
    ``jiyi.output.tokens``, ``jiyi.prompt.tokens``) get each value as it comes, from now on.
    Counters and gauges are read when the meter's reader collects, and named as in
    `prometheus_text` with dots. Every value has the attribute ``task_type``. Call it once for
    a monitor and a meter.

    Raises:
        MissingExtra: the package `opentelemetry-api` is not installed.
    """
    try:
        from opentelemetry.metrics import Observation
    except ImportError as error:
        raise MissingExtra(
            'OpenTelemetry metrics need an optional package: pip install "jiyi[otel]"'
        ) from error

    def observing(metric: _Metric) -> Callable[["CallbackOptions"], Iterator["Observation"]]:
        def observe(_: "CallbackOptions") -> Iterator["Observation"]:
            for one in monitor.by_task_type():
                for labels, value in _values(metric, one):
                    yield Observation(value, {"task_type": one.task_type or "", **labels})

        return observe

    for name, metric in _metrics().items():
        if metric["kind"] != "summary":
            create = getattr(meter, f"create_observable_{metric['kind']}")
            create(_dotted(name), [observing(metric)], metric["unit"], metric["help"])
    monitor.listen(_histograms(meter))


def _histograms(meter: "Meter") -> Callable[[Figure, float, str], None]:
    histograms = {
        figure: meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=buckets)
        for figure, name, unit, text, buckets in _HISTOGRAMS
    }

    def listener(figure: Figure, value: float, task_type: str) -> None:
        told = value / 1000 if figure == "build_milliseconds" else value
        histograms[figure].record(told, {"task_type": task_type})

    return listener


@cache
def _metrics() -> dict[str, _Metric]:
    return tomllib.loads((files("jiyi.monitor") / "metrics.toml").read_text("utf-8"))


def _values(metric: _Metric, gauges: Gauges) -> list[tuple[_Labels, float]]:
    """Return a counter or gauge with the labels that split it; nothing where it is not known."""
    value, label = getattr(gauges, metric["figure"]), metric.get("by", "")
    if value is None or ("known_by" in metric and not getattr(gauges, metric["known_by"])):
        return []
    if "part" in metric:
        part = getattr(gauges, metric["part"])
        other = {"true": "false", "false": "true"}[metric["part_is"]]
        value = dict(sorted({metric["part_is"]: part, other: value - part}.items()))
    return [({label: str(name)}, one) for name, one in value.items()] if label else [({}, value)]


def _dotted(name: str) -> str:
    return "jiyi." + name.replace("_", ".")


def _metric(name: str, kind: str, text: str, samples: list[str]) -> list[str]:
    """Return a metric's lines; none where it has no samples."""
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *samples] if samples else []


def _summary(name: str, metric: _Metric, gauges: Gauges) -> Iterator[str]:
    spread, factor = getattr(gauges, metric["figure"]), metric.get("factor", 1.0)
    if spread.count:
        for quantile, value in (("0.5", spread.p50), ("0.95", spread.p95)):
            yield _sample(name, gauges, {"quantile": quantile}, value * factor)
    yield _sample(f"{name}_sum", gauges, {}, spread.total * factor)
    yield _sample(f"{name}_count", gauges, {}, spread.count)


def _samples(name: str, metric: _Metric, gauges: Gauges) -> Iterator[str]:
    for labels, value in _values(metric, gauges):
        yield _sample(name, gauges, labels, value)


def _sample(name: str, gauges: Gauges, labels: _Labels, value: float) -> str:
    all_labels = {"task_type": gauges.task_type or "", **labels}
    shown = ",".join(f'{key}="{_escaped(word)}"' for key, word in all_labels.items())
    return f"{name}{{{shown}}} {value:.15g}" if isinstance(value, float) else f"{name}{{{shown}}} {value}"


def _escaped(value: str) -> str:
    """Return a label value with backslash, double quote and line feed escaped."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
