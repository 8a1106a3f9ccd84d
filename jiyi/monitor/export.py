"""The figures for other systems: Prometheus text and OpenTelemetry metrics."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from jiyi.errors import MissingExtra
from jiyi.long_term import ReadingState
from jiyi.monitor.figures import Gauges
from jiyi.monitor.monitor import ContextMonitor, Figure

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

__all__ = ["CONTENT_TYPE", "Sample", "metric_text", "otel_metrics", "prometheus_text"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The Content-Type under which `prometheus_text` is to be served."""

_Labels = Mapping[str, str]
Sample = tuple[str, _Labels, float]
"""What follows the name of a metric, the labels and the value."""

_Metric = Mapping[str, Any]  # see metrics.toml


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
    figures, text = monitor.by_task_type(), ""
    for name, metric in _metrics("monitor").items():
        samples = [
            (ending, {"task_type": one.task_type or "", **labels}, value)
            for one in figures
            for ending, labels, value in _samples(metric, one)
        ]
        text += metric_text(name, metric["kind"], metric["help"], samples)
    for name, metric in _metrics("reader").items() if reading is not None else ():
        value = getattr(reading, metric["figure"])
        text += metric_text(name, metric["kind"], metric["help"], [("", {}, value)])
    return text


def metric_text(name: str, kind: str, about: str, samples: Sequence[Sample]) -> str:
    """Return a metric in Prometheus' text format 0.0.4, "" where it has no samples.

    Args:
        name: without ``jiyi_``, and without the ``_total`` of a counter.
        kind: "counter", "gauge", "summary" or "histogram".
        about: what it is.
        samples: of each what follows the name, its labels and its value.
    """
    if not samples:
        return ""
    named = f"jiyi_{name}_total" if kind == "counter" else f"jiyi_{name}"
    lines = [f"# HELP {named} {about}", f"# TYPE {named} {kind}"]
    for ending, labels, value in samples:
        told = ",".join(f'{key}="{_escaped(word)}"' for key, word in labels.items())
        number = f"{value:.15g}" if isinstance(value, float) else value
        lines.append(f"{named}{ending}{{{told}}} {number}" if told else f"{named}{ending} {number}")
    return "".join(f"{line}\n" for line in lines)


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

    for name, metric in _metrics("monitor").items():
        if metric["kind"] != "summary":
            create = getattr(meter, f"create_observable_{metric['kind']}")
            create(f"jiyi.{name.replace('_', '.')}", [observing(metric)], metric["unit"], metric["help"])
    monitor.listen(_histograms(meter))


def _histograms(meter: "Meter") -> Callable[[Figure, float, str], None]:
    histograms = {
        one["figure"]: meter.create_histogram(
            name, one["unit"], one["help"], explicit_bucket_boundaries_advisory=one["buckets"]
        )
        for name, one in _metrics("listener").items()
    }

    def listener(figure: Figure, value: float, task_type: str) -> None:
        told = value / 1000 if figure == "build_milliseconds" else value
        histograms[figure].record(told, {"task_type": task_type})

    return listener


@cache
def _metrics(of: Literal["monitor", "reader", "listener"]) -> Mapping[str, _Metric]:
    """Return the metrics of `Gauges`, of `ReadingState`, or of what listeners are told."""
    tables: dict[str, _Metric] = tomllib.loads((files("jiyi.monitor") / "metrics.toml").read_text("utf-8"))
    return {name: one for name, one in tables.items() if one.get("of", "monitor") == of}


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


def _samples(metric: _Metric, gauges: Gauges) -> Iterator[Sample]:
    if metric["kind"] != "summary":
        yield from (("", labels, value) for labels, value in _values(metric, gauges))
        return
    spread, factor = getattr(gauges, metric["figure"]), metric.get("factor", 1.0)
    if spread.count:
        yield "", {"quantile": "0.5"}, spread.p50 * factor
        yield "", {"quantile": "0.95"}, spread.p95 * factor
    yield "_sum", {}, spread.total * factor
    yield "_count", {}, spread.count


def _escaped(value: str) -> str:
    """Return a label value with backslash, double quote and line feed escaped."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
