"""The spans of a memory's verbs, as OpenTelemetry's own SDK collects them."""

import inspect
import json
from collections.abc import Callable

import pytest
from other_processes import run_apart
from refusing import refused

import jiyi
from jiyi.errors import NotFound
from jiyi.verbs.forgetting import ForgettingVerbs

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed")

from opentelemetry import trace  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402

WANTED = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
SECRET = "the harbour gate opens at 4711"

Spans = Callable[[], list["sdk.ReadableSpan"]]


@pytest.fixture
def spans(monkeypatch):
    """What was collected since the last call. The program's own provider can be set only once."""
    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.delenv(WANTED, raising=False)

    def collected() -> list[sdk.ReadableSpan]:
        found = list(exporter.get_finished_spans())
        exporter.clear()
        return found

    yield collected
    provider.shutdown()


def told(spans: Spans) -> list[tuple[str, dict[str, object]]]:
    return [(span.name, dict(span.attributes)) for span in spans()]


def test_verbs_are_spans_with_counts_and_ids(memory, spans):
    saved = memory.save_message("s", role="user", content=SECRET)
    memory.save_messages("s", [{"role": "user", "content": f"line {n}"} for n in range(3)])
    kept = memory.remember("Ana's locker is number 12").kept
    hits = memory.search("harbour gate")
    memory.forget(ids=saved.id, dry_run=True)
    receipt = memory.forget(ids=saved.id)
    memory.restore(saved.id)
    memory.update(kept, pinned=True)
    popped = memory.pop_messages("s", 2)
    named = told(spans)
    assert [(name, found["gen_ai.memory.record.count"]) for name, found in named] == [
        ("upsert_memory", 1),
        ("upsert_memory", 3),
        ("upsert_memory", 1),
        ("search_memory", len(hits)),
        ("delete_memory", receipt.total),
        ("delete_memory", receipt.total),
        ("update_memory", receipt.total),
        ("update_memory", 1),
        ("delete_memory", len(popped)),
    ]
    assert all(found["gen_ai.operation.name"] == name for name, found in named)
    assert named[0][1]["gen_ai.memory.record.id"] == saved.id
    assert named[0][1]["gen_ai.conversation.id"] == "s"
    assert named[2][1]["gen_ai.memory.record.id"] == kept
    assert named[3][1]["jiyi.nothing_relevant"] == hits.nothing_relevant
    assert [found.get("jiyi.dry_run") for _, found in named[4:6]] == [True, None]


def test_a_window_says_what_it_took(memory, spans):
    memory.save_message("s", role="user", content=SECRET)
    spans()
    window = memory.build_context("t", "When does the harbour gate open?", 300)
    ((name, found),) = told(spans)
    assert name == "build_context"
    assert (found["jiyi.window.tokens"], found["jiyi.window.max_tokens"]) == (window.report.tokens, 300)
    assert found["jiyi.window.tokens.recalled"] == window.report.sections["recalled"] > 0
    assert found["jiyi.window.left_out"] == len(window.report.left_out)
    assert found["gen_ai.memory.record.count"] == len(window.blocks) == 1
    assert found["jiyi.nothing_relevant"] == window.report.nothing_relevant


def test_no_words_unless_asked_for(memory, spans, monkeypatch):
    def all_verbs() -> str:
        saved = memory.save_message("s", role="user", content=SECRET)
        memory.search("harbour gate 4711")
        memory.build_context("t", "harbour gate 4711?")
        refused(NotFound, "4711", memory.forget, ids="4711")
        memory.forget(ids=saved.id)
        return "".join(span.to_json() for span in spans())

    assert "4711" not in all_verbs()
    monkeypatch.setenv(WANTED, "SPAN_ONLY")
    assert all_verbs().count("4711") >= 4
    memory.save_message("s", role="user", content=SECRET)
    assert (hits := memory.search("harbour gate"))
    found = dict(spans()[-1].attributes)
    assert found["gen_ai.memory.query.text"] == "harbour gate"
    records = json.loads(found["gen_ai.memory.records"])
    assert [record["content"] for record in records] == [hit.text for hit in hits]


def test_an_error_is_told_by_its_class_and_raised_as_it_is(memory, spans):
    refused(NotFound, "nowhere", memory.forget, ids="nowhere")
    (span,) = spans()
    assert (span.status.status_code, span.status.description) == (trace.StatusCode.ERROR, None)
    assert dict(span.attributes) == {"gen_ai.operation.name": "delete_memory", "error.type": "NotFound"}
    assert not span.events


async def test_spans_stand_under_what_called_them(memory, spans):
    with trace.get_tracer("app").start_as_current_span("request"):
        await jiyi.AsyncMemoryManager(memory).search_episodes("anything")
    inner, outer = spans()
    assert (inner.name, outer.name) == ("search_memory", "request")
    assert inner.parent is not None
    assert inner.parent.span_id == outer.context.span_id


def test_verbs_look_as_they_did():
    assert inspect.signature(jiyi.MemoryManager.forget) == inspect.signature(ForgettingVerbs.forget)
    assert jiyi.MemoryManager.forget.__doc__ == ForgettingVerbs.forget.__doc__


_UNTRACED = """
import sys, jiyi
from jiyi.testing import HashEmbedder
with jiyi.open(sys.argv[1], user_id="ana", embedder=HashEmbedder(), background=False) as memory:
    memory.save_message("s", role="user", content="hello")
    assert "opentelemetry" not in sys.modules
    from opentelemetry import trace
    assert memory.search("hello")
    assert "opentelemetry.sdk" not in sys.modules
"""


@pytest.mark.slow
def test_nothing_is_imported_for_it(tmp_path):
    run_apart(_UNTRACED, tmp_path / "a.db")
