"""The figures for other systems: Prometheus text and OpenTelemetry metrics."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jiyi.errors import MissingExtra
from jiyi.long_term import ReadingState
from jiyi.monitor.gauges import Gauges, Spread
from jiyi.monitor.monitor import ContextMonitor, Figure

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

__all__ = ["CONTENT_TYPE", "otel_metrics", "prometheus_text"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The Content-Type under which `prometheus_text` is to be served."""

_Labels = Mapping[str, str]
_Read = Callable[[Gauges], Iterable[tuple[_Labels, float]]]
_BUCKETS = {
    "tokens": (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000),
    "seconds": (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
}


def _one(value: float | None) -> list[tuple[_Labels, float]]:
    return [] if value is None else [({}, value)]


def _split(label: str, values: Mapping[Any, float]) -> list[tuple[_Labels, float]]:
    return [({label: str(name)}, value) for name, value in values.items()]


_SUMMARIES: tuple[tuple[str, Callable[[Gauges], Spread], float, str], ...] = (
    ("context_tokens", lambda g: g.tokens, 1.0, "Tokens of a window, messages and tools."),
    ("context_budget_ratio", lambda g: g.share, 1.0, "Tokens of a window as a part of its input budget."),
    ("context_build_seconds", lambda g: g.milliseconds, 1e-3, "Time to build a window."),
    ("output_tokens", lambda g: g.output_tokens, 1.0, "Tokens of a reply."),
    ("prompt_tokens", lambda g: g.prompt_tokens, 1.0, "Tokens of a prompt, as the endpoint counted."),
)
"""Name, figure, factor to the unit in the name, help."""

_COUNTERS: tuple[tuple[str, str, str, _Read], ...] = (
    (
        "context_section_tokens",
        "{token}",
        "Tokens in windows by section.",
        lambda g: _split("section", g.sections),
    ),
    (
        "context_saved_tokens",
        "{token}",
        "Tokens kept out of windows, by what kept them out.",
        lambda g: _split("by", g.saved),
    ),
    (
        "cached_tokens",
        "{token}",
        "Tokens of prompts that the endpoint read from its cache.",
        lambda g: _one(g.cached_tokens),
    ),
    ("summaries", "{summary}", "Summaries triggered.", lambda g: _one(g.summaries)),
    (
        "retrieved_blocks",
        "{block}",
        "Recalled blocks shown in windows whose reply was looked at.",
        lambda g: _split("used", {"false": g.blocks_shown - g.blocks_used, "true": g.blocks_used}),
    ),
    (
        "replies_unjudged",
        "{reply}",
        "Replies that were not compared with their window.",
        lambda g: _one(g.unjudged),
    ),
    (
        "run_steps",
        "{step}",
        "Steps of runs.",
        lambda g: _split("ok", {"false": g.failed_steps, "true": g.steps - g.failed_steps}),
    ),
)
"""Name, unit, help, how to read it; all only grow."""

_GAUGES: tuple[tuple[str, str, str, _Read], ...] = (
    (
        "retrieval_hit_ratio",
        "1",
        "Replies that used recalled text, of those that were shown some.",
        lambda g: _one(g.hit_rate),
    ),
    (
        "retrieval_block_hit_ratio",
        "1",
        "Recalled blocks that replies used, of those shown.",
        lambda g: _one(g.block_rate),
    ),
    (
        "output_reserve_tokens",
        "{token}",
        "Tokens to keep free for a reply: 1.5 times the mean.",
        lambda g: _one(g.output_reserve if g.replies else None),
    ),
    (
        "run_drift_ratio",
        "1",
        "Mean distance of active runs from their request, 0 to 1.",
        lambda g: _one(g.drift),
    ),
    ("runs_drifting", "{run}", "Active runs that drift.", lambda g: _one(g.drifting)),
)
"""Name, unit, help, how to read it."""


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
    for name, spread, factor, text in _SUMMARIES:
        samples = [line for one in figures for line in _summary(f"jiyi_{name}", one, spread(one), factor)]
        lines += _metric(f"jiyi_{name}", "summary", text, samples)
    for kind, suffix, metrics in (("counter", "_total", _COUNTERS), ("gauge", "", _GAUGES)):
        for name, _, text, read in metrics:
            named = f"jiyi_{name}{suffix}"
            samples = [_sample(named, one, labels, value) for one in figures for labels, value in read(one)]
            lines += _metric(named, kind, text, samples)
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

    def observing(read: _Read) -> Callable[["CallbackOptions"], Iterator["Observation"]]:
        def observe(_: "CallbackOptions") -> Iterator["Observation"]:
            for one in monitor.by_task_type():
                for labels, value in read(one):
                    yield Observation(value, {"task_type": one.task_type or "", **labels})

        return observe

    for name, unit, text, read in _COUNTERS:
        meter.create_observable_counter(_dotted(name), [observing(read)], unit, text)
    for name, unit, text, read in _GAUGES:
        meter.create_observable_gauge(_dotted(name), [observing(read)], unit, text)
    monitor.listen(_histograms(meter))


def _histograms(meter: "Meter") -> Callable[[Figure, float, str], None]:
    def histogram(name: str, unit: str, text: str, buckets: str) -> Any:
        return meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=_BUCKETS[buckets])

    context = histogram("jiyi.context.tokens", "{token}", "Tokens of a window.", "tokens")
    output = histogram("jiyi.output.tokens", "{token}", "Tokens of a reply.", "tokens")
    prompt = histogram("jiyi.prompt.tokens", "{token}", "Tokens of a prompt.", "tokens")
    duration = histogram("jiyi.context.build.duration", "s", "Time to build a window.", "seconds")

    def listener(figure: Figure, value: float, task_type: str) -> None:
        labels = {"task_type": task_type}
        if figure == "context_tokens":
            context.record(value, labels)
        elif figure == "output_tokens":
            output.record(value, labels)
        elif figure == "prompt_tokens":
            prompt.record(value, labels)
        else:
            duration.record(value / 1000, labels)

    return listener


def _dotted(name: str) -> str:
    return "jiyi." + name.replace("_", ".")


def _metric(name: str, kind: str, text: str, samples: list[str]) -> list[str]:
    """Return a metric's lines; none where it has no samples."""
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *samples] if samples else []


def _summary(name: str, gauges: Gauges, spread: Spread, factor: float) -> Iterator[str]:
    if spread.count:
        for quantile, value in (("0.5", spread.p50), ("0.95", spread.p95)):
            yield _sample(name, gauges, {"quantile": quantile}, value * factor)
    yield _sample(f"{name}_sum", gauges, {}, spread.total * factor)
    yield _sample(f"{name}_count", gauges, {}, spread.count)


def _sample(name: str, gauges: Gauges, labels: _Labels, value: float) -> str:
    all_labels = {"task_type": gauges.task_type or "", **labels}
    shown = ",".join(f'{key}="{_escaped(word)}"' for key, word in all_labels.items())
    return f"{name}{{{shown}}} {value:.15g}" if isinstance(value, float) else f"{name}{{{shown}}} {value}"


def _escaped(value: str) -> str:
    """Return a label value with backslash, double quote and line feed escaped."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
