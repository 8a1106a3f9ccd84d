"""A memory's verbs as OpenTelemetry spans, by the GenAI conventions for memory.

Conventions: github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md, "Memory".
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

from jiyi.long_term import ForgetReceipt, GateReceipt, Learned, RestoreReceipt
from jiyi.records import Hits, Searchable, Window

__all__ = ["traced"]

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
