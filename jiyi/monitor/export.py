"""Export figures and verbs: Prometheus text, OpenTelemetry metrics and spans.

Spans follow the GenAI conventions for memory:
github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md, "Memory".
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from jiyi.errors import MissingExtra
from jiyi.long_term import ForgetReceipt, GateReceipt, Learned, ReadingState, RestoreReceipt
from jiyi.monitor.figures import Gauges
from jiyi.monitor.monitor import ContextMonitor, Figure
from jiyi.records import Hits, Searchable, Window
from jiyi.storage import ImportReceipt
from jiyi.text.lexicon import read_toml

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

__all__ = ["CONTENT_TYPE", "Sample", "metric_text", "otel_metrics", "prometheus_text", "traced"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The Content-Type of `prometheus_text`."""

_Labels = Mapping[str, str]
Sample = tuple[str, _Labels, float]
"""The suffix of the name, the labels and the value."""

_Metric = Mapping[str, Any]  # see metrics.toml
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})  # in the values of labels


def prometheus_text(monitor: ContextMonitor, reading: ReadingState | None = None) -> str:
    """Return the figures in the text format 0.0.4 of Prometheus, to be served as `CONTENT_TYPE`.

    Every sample has the label ``task_type``, and totals are sums over it. Quantiles are of the values that
    the monitor keeps, ``_sum`` and ``_count`` of all since the start. A ratio that is not known yet has no
    sample. With ``reading``, from `memory.reading()`, the state of the background reader is added without
    labels: it is the same in every process on a database.
    """
    figures, text = monitor.by_task_type(), ""
    for name, metric in _metrics("monitor").items():
        samples = [
            (ending, {"task_type": gauges.task_type or "", **labels}, value)
            for gauges in figures
            for ending, labels, value in _samples(metric, gauges)
        ]
        text += metric_text(name, metric["kind"], metric["help"], samples)
    for name, metric in _metrics("reader").items() if reading is not None else ():
        value = getattr(reading, metric["figure"])
        text += metric_text(name, metric["kind"], metric["help"], [("", {}, value)])
    return text


def metric_text(name: str, kind: str, about: str, samples: Sequence[Sample]) -> str:
    """Return a metric in that format, "" without samples; ``name`` is without "jiyi_" and "_total"."""
    if not samples:
        return ""
    full_name = f"jiyi_{name}_total" if kind == "counter" else f"jiyi_{name}"
    lines = [f"# HELP {full_name} {about}", f"# TYPE {full_name} {kind}"]
    for ending, labels, value in samples:
        label_text = ",".join(f'{key}="{text.translate(_ESCAPED)}"' for key, text in labels.items())
        number = f"{value:.15g}" if isinstance(value, float) else value
        lines.append(f"{full_name}{ending}{f'{{{label_text}}}' if label_text else ''} {number}")
    return "".join(f"{line}\n" for line in lines)


def otel_metrics(monitor: ContextMonitor, meter: "Meter") -> None:
    """Register the figures with an OpenTelemetry meter (`pip install "jiyi[otel]"`), once per meter.

    Histograms (``jiyi.context.tokens``, ``jiyi.context.build.duration``,
    ``jiyi.output.tokens``, ``jiyi.prompt.tokens``) receive each value from now on. Counters and
    gauges are read when the reader of the meter collects; their names are those of `prometheus_text` with
    dots. Every value has the attribute ``task_type``.

    MissingExtra: the package `opentelemetry-api` is not installed.
    """
    try:
        from opentelemetry.metrics import Observation
    except ImportError as error:
        hint = 'OpenTelemetry metrics need an optional package: pip install "jiyi[otel]"'
        raise MissingExtra(hint) from error

    def observe(metric: _Metric, _: "CallbackOptions") -> Iterator["Observation"]:
        for gauges in monitor.by_task_type():
            for labels, value in _labelled_values(metric, gauges):
                yield Observation(value, {"task_type": gauges.task_type or "", **labels})

    for name, metric in _metrics("monitor").items():
        if metric["kind"] != "summary":
            create = getattr(meter, f"create_observable_{metric['kind']}")
            full_name = f"jiyi.{name.replace('_', '.')}"
            create(full_name, [partial(observe, metric)], metric["unit"], metric["help"])
    histograms = {}
    for name, metric in _metrics("listener").items():
        buckets: Any = {"explicit_bucket_boundaries_advisory": metric["buckets"]}
        histograms[metric["figure"]] = meter.create_histogram(name, metric["unit"], metric["help"], **buckets)

    def record(figure: Figure, value: float, task_type: str) -> None:
        scaled = value / 1000 if figure == "build_milliseconds" else value
        histograms[figure].record(scaled, {"task_type": task_type})

    monitor.listen(record)


@cache
def _metrics(source: Literal["monitor", "reader", "listener"]) -> Mapping[str, _Metric]:
    """Return the metrics of `Gauges`, of `ReadingState`, or of the values of listeners."""
    tables = read_toml(__package__, "metrics").items()
    return {name: metric for name, metric in tables if metric.get("of", "monitor") == source}


def _labelled_values(metric: _Metric, gauges: Gauges) -> list[tuple[_Labels, float]]:
    value, label = getattr(gauges, metric["figure"]), metric.get("by", "")
    if value is None or ("known_by" in metric and not getattr(gauges, metric["known_by"])):
        return []
    if "part" in metric:
        part = getattr(gauges, metric["part"])
        other = {"true": "false", "false": "true"}[metric["part_is"]]
        value = dict(sorted({metric["part_is"]: part, other: value - part}.items()))
    return [({label: str(name)}, number) for name, number in value.items()] if label else [({}, value)]


def _samples(metric: _Metric, gauges: Gauges) -> Iterator[Sample]:
    if metric["kind"] != "summary":
        yield from (("", labels, value) for labels, value in _labelled_values(metric, gauges))
        return
    spread, factor = getattr(gauges, metric["figure"]), metric.get("factor", 1.0)
    if spread.count:
        yield "", {"quantile": "0.5"}, spread.p50 * factor
        yield "", {"quantile": "0.95"}, spread.p95 * factor
    yield "_sum", {}, spread.total * factor
    yield "_count", {}, spread.count


_T = TypeVar("_T")
_Attributes = dict[str, Any]  # of a span; None where a value is not known
_COUNT, _ID = "gen_ai.memory.record.count", "gen_ai.memory.record.id"
_CAPTURE_TEXT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURE_VALUES = frozenset({"true", "span_only", "span_and_event"})
_OF_ERRORS: Any = {"record_exception": False, "set_status_on_exception": False}  # see `traced`

_VERBS = {
    "search_memory": "search",
    "upsert_memory": "save_message save_messages replace_messages import_ remember learn_facts",
    "update_memory": "update restore pin unpin",
    "delete_memory": "pop_messages forget run_forget_gate",
    "build_context": "build_context",
}
"""The traced verbs, by operation."""


def traced(memory: type[_T]) -> type[_T]:
    """Add spans to the verbs of a memory, for programs with a tracer provider.

    A program that never imported `opentelemetry.trace` has none, and it is not imported here. Spans have
    counts, ids and tokens, and text only if `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` asks for it.
    Of an error they have the class, not the message, which may quote messages of users.
    """
    for operation, names in _VERBS.items():
        for name in names.split():
            setattr(memory, name, _with_span(getattr(memory, name), operation))
    return memory


def _with_span(verb: Callable[..., Any], operation: str) -> Callable[..., Any]:
    parameters = signature(verb)

    @wraps(verb)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "opentelemetry.trace" not in sys.modules:
            return verb(*args, **kwargs)
        from opentelemetry import trace  # waits while another thread imports it

        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):  # none is set
            return verb(*args, **kwargs)
        tracer, named = trace.get_tracer("jiyi"), {"gen_ai.operation.name": operation}
        with tracer.start_as_current_span(operation, attributes=named, **_OF_ERRORS) as span:
            try:
                result = verb(*args, **kwargs)
            except BaseException as error:
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(trace.StatusCode.ERROR)
                raise
            if span.is_recording():
                span.set_attributes(_attributes(result, parameters.bind(*args, **kwargs).arguments))
            return result

    return call


def _attributes(result: Any, arguments: Mapping[str, Any]) -> _Attributes:
    attributes, records = _describe(result)
    attributes["gen_ai.conversation.id"] = arguments.get("session_id")
    if os.environ.get(_CAPTURE_TEXT, "").lower() in _CAPTURE_VALUES:
        attributes["gen_ai.memory.query.text"] = arguments.get("query")
        if texts := list(records):
            attributes["gen_ai.memory.records"] = json.dumps(texts, ensure_ascii=False)
    return {name: value for name, value in attributes.items() if value is not None}


def _describe(result: Any) -> tuple[_Attributes, Iterable[Mapping[str, Any]]]:
    """Return the attributes of a verb's result, and its records with their texts."""
    match result:
        case int():
            return {_COUNT: result}, ()
        case ImportReceipt():
            return {_COUNT: result.added + result.known}, ()
        case ForgetReceipt() | GateReceipt() | RestoreReceipt():
            return {_COUNT: result.total, "jiyi.dry_run": getattr(result, "dry_run", False) or None}, ()
        case Learned():
            facts = ({"id": fact.id, "content": fact.text} for fact in result.facts)
            return {_COUNT: len(result.facts), _ID: result.kept}, facts
        case Hits():
            hits = ({"id": hit.id, "content": hit.text, "score": hit.score} for hit in result)
            return {_COUNT: len(result), "jiyi.nothing_relevant": result.nothing_relevant}, hits
        case Window():
            blocks = ({"id": block.source_id, "content": block.text} for block in result.blocks)
            return _describe_window(result), blocks
    records: Sequence[Searchable] = result if isinstance(result, list) else [result]
    texts = ({"id": record.id, "content": record.search_text} for record in records)
    return {_COUNT: len(records), _ID: records[0].id if len(records) == 1 else None}, texts


def _describe_window(window: Window) -> _Attributes:
    report = window.report
    tokens = {f"jiyi.window.tokens.{name}": count for name, count in report.sections.items() if count}
    return {
        _COUNT: len({block.key for block in window.blocks}),
        "jiyi.window.tokens": report.tokens,
        "jiyi.window.max_tokens": report.budget.max_input_tokens,
        "jiyi.window.left_out": len(report.left_out),
        "jiyi.window.notes": len(report.notes),
        "jiyi.nothing_relevant": report.nothing_relevant,
        **tokens,
    }
