"""The figures and the verbs for other systems: Prometheus text, OpenTelemetry metrics and spans.

Spans follow the GenAI conventions for memory:
github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md, "Memory".
"""

import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, wraps
from importlib.resources import files
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from jiyi.errors import MissingExtra
from jiyi.long_term import ForgetReceipt, GateReceipt, Learned, ReadingState, RestoreReceipt
from jiyi.monitor.figures import Gauges
from jiyi.monitor.monitor import ContextMonitor, Figure
from jiyi.records import Hits, Searchable, Window

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

__all__ = ["CONTENT_TYPE", "Sample", "metric_text", "otel_metrics", "prometheus_text", "traced"]

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

    Its name is without ``jiyi_``, and without the ``_total`` of a counter.
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
    """Register the figures with an OpenTelemetry meter (`pip install "jiyi[otel]"`), once for each meter.

    Histograms (``jiyi.context.tokens``, ``jiyi.context.build.duration``,
    ``jiyi.output.tokens``, ``jiyi.prompt.tokens``) get each value as it comes, from now on.
    Counters and gauges are read when the meter's reader collects, and named as in
    `prometheus_text` with dots. Every value has the attribute ``task_type``.

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


_T = TypeVar("_T")

_TEXT_WANTED = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_YES = frozenset({"true", "span_only", "span_and_event"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What a span says of a verb's result."""

    count: int | None = None  # records returned, or that it was about
    record_id: str | None = None  # where it was about one
    more: Mapping[str, str | int | float] = field(default_factory=dict)  # attributes of jiyi's own
    records: Iterable[Mapping[str, Any]] = ()  # their words: only for whoever asked for text


def _about(records: Sequence[Searchable]) -> _Told:
    return _Told(
        count=len(records),
        record_id=records[0].id if len(records) == 1 else None,
        records=({"id": record.id, "content": record.search_text} for record in records),
    )


def _learned(learned: Learned) -> _Told:
    return _Told(
        count=len(learned.facts),
        record_id=learned.kept,
        records=({"id": fact.id, "content": fact.text} for fact in learned.facts),
    )


def _found(hits: Hits) -> _Told:
    return _Told(
        count=len(hits),
        more=_doubt(hits.nothing_relevant),
        records=({"id": hit.id, "content": hit.text, "score": hit.score} for hit in hits),
    )


def _taken_out(receipt: ForgetReceipt | GateReceipt | RestoreReceipt) -> _Told:
    dry = getattr(receipt, "dry_run", False)
    return _Told(count=receipt.total, more={"jiyi.dry_run": True} if dry else {})


def _built(window: Window) -> _Told:
    report = window.report
    tokens = {f"jiyi.window.tokens.{name}": taken for name, taken in report.sections.items() if taken}
    return _Told(
        count=len({block.key for block in window.blocks}),
        more={
            "jiyi.window.tokens": report.tokens,
            "jiyi.window.max_tokens": report.budget.max_input_tokens,
            "jiyi.window.left_out": len(report.left_out),
            "jiyi.window.notes": len(report.notes),
            **tokens,
            **_doubt(report.nothing_relevant),
        },
        records=({"id": block.source_id, "content": block.text} for block in window.blocks),
    )


def _doubt(nothing_relevant: float | None) -> Mapping[str, float]:
    return {} if nothing_relevant is None else {"jiyi.nothing_relevant": nothing_relevant}


_SPANS: Mapping[str, tuple[str, Callable[[Any], _Told]]] = {
    "search": ("search_memory", _found),
    "save_message": ("upsert_memory", lambda message: _about([message])),
    "save_messages": ("upsert_memory", _about),
    "remember": ("upsert_memory", _learned),
    "learn_facts": ("upsert_memory", _learned),
    "import_": ("upsert_memory", lambda receipt: _Told(count=receipt.added + receipt.known)),
    "replace_messages": ("upsert_memory", _about),
    "update": ("update_memory", lambda record: _about([record])),
    "restore": ("update_memory", _taken_out),
    "pin": ("update_memory", lambda count: _Told(count=count)),
    "unpin": ("update_memory", lambda count: _Told(count=count)),
    "pop_messages": ("delete_memory", _about),
    "forget": ("delete_memory", _taken_out),
    "run_forget_gate": ("delete_memory", _taken_out),
    "build_context": ("build_context", _built),
}
"""Verb, the name of its span, and what the span says of the result."""


def traced(memory: type[_T]) -> type[_T]:
    """Give the verbs of a memory their spans, where the program has a tracer provider.

    A program that never imported `opentelemetry.trace` has none, and it is not imported here. Spans
    have counts, ids and tokens; words only where `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`
    asks for them. An error's class is told, not its message, which may quote what was said.
    """
    for name, (operation, told) in _SPANS.items():
        setattr(memory, name, _spanned(getattr(memory, name), operation, told))
    return memory


def _spanned(verb: Callable[..., Any], operation: str, told: Callable[[Any], _Told]) -> Callable[..., Any]:
    parameters = signature(verb)

    @wraps(verb)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "opentelemetry.trace" not in sys.modules:
            return verb(*args, **kwargs)
        from opentelemetry import trace  # waits where another thread is just importing it

        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):  # none was set
            return verb(*args, **kwargs)
        with trace.get_tracer("jiyi").start_as_current_span(
            operation,
            attributes={"gen_ai.operation.name": operation},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                result = verb(*args, **kwargs)
            except BaseException as error:
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(trace.StatusCode.ERROR)
                raise
            if span.is_recording():
                span.set_attributes(_attributes(told(result), parameters.bind(*args, **kwargs).arguments))
            return result

    return call


def _attributes(told: _Told, given: Mapping[str, Any]) -> dict[str, str | int | float]:
    out: dict[str, str | int | float | None] = {
        "gen_ai.conversation.id": given.get("session_id"),
        "gen_ai.memory.record.count": told.count,
        "gen_ai.memory.record.id": told.record_id,
        **told.more,
    }
    if os.environ.get(_TEXT_WANTED, "").lower() in _YES:
        out["gen_ai.memory.query.text"] = given.get("query")
        if records := list(told.records):
            out["gen_ai.memory.records"] = json.dumps(records, ensure_ascii=False)
    return {name: value for name, value in out.items() if value is not None}
