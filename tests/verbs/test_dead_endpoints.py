"""Windows while an endpoint is dead: one pays a timeout, the next ones nothing, until it is alive again."""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from at_once import wait_until
from scripted_endpoint import Reply, ScriptedEndpoint, answer_to
from scripted_rerank import scores

import jiyi

LIMIT = 0.8  # seconds a window may wait for an endpoint
MORE = 0.05  # seconds that a window may take longer than one without a model
WAYS = {
    "silent": Reply(silent=True),
    "dripping": Reply(body=b" " * 1000, drip=0.05),
    "too many requests": Reply(status=429, body={}, headers={"Retry-After": "2"}),
    "failing": Reply(status=500, body={}),
    "broken": Reply(body=b"{nope"),
}
PARTS: dict[str, dict[str, Any]] = {
    "vectors": {"embedder": "openai", "embedding_model": "m", "embedding_seconds": LIMIT},
    "reranker": {"reranker": "endpoint", "reranker_model": "m", "reranker_seconds": LIMIT},
    "reranker llm": {"reranker": "llm", "llm_model": "m", "reranker_seconds": LIMIT, "reader": "off"},
    "summary": {"llm_model": "m", "llm_seconds": LIMIT, "summary_wait": True, "summary_after": 5},
}
ADDRESS = {"vectors": "embedding_base_url", "reranker": "reranker_base_url"}


class Ailing(ScriptedEndpoint):
    """Misbehaves in one way until it is `well`."""

    way, well = Reply(), False

    def usual(self, asked: dict[str, Any]) -> Reply:
        if not self.well:
            return self.way
        return Reply(body=answer_to if "input" in asked else scores)


@contextmanager
def memory_at(folder: Path, part: str, url: str) -> Iterator[jiyi.MemoryManager]:
    options = PARTS.get(part, {}) | ({ADDRESS.get(part, "llm_base_url"): url} if url else {})
    with jiyi.open(folder / f"{part}.db", user_id="u", background=False, **options) as memory:
        for n in range(12):
            memory.save_message("s", role="user", content=f"the port of machine {n} is {8000 + n}")
        yield memory


def window(memory: jiyi.MemoryManager, question: str) -> tuple[float, str]:
    started = time.monotonic()
    report = memory.build_context("s", query=question).report
    return time.monotonic() - started, " ".join(report.notes)


def stalls(
    memory: jiyi.MemoryManager, usual: jiyi.MemoryManager, seconds: float, said: str
) -> tuple[list[float], list[float]]:
    """Build windows for so long; return what each took, and what as many took of another memory."""
    took, beside, started = [], [], time.monotonic()
    while time.monotonic() < started + seconds:
        question = f"which port has machine {len(took)}?"
        beside.append(window(usual, question)[0])
        spent, notes = window(memory, question)
        assert said in notes
        took.append(spent)
    return took, beside


@pytest.fixture(scope="module", autouse=True)
def imported():
    """The package `openai` takes a second to import; that is not the endpoint's doing."""
    pytest.importorskip("openai")


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """A memory without any endpoint: what its windows take, a busy machine lets all others take as well."""
    with memory_at(tmp_path_factory.mktemp("usual"), "none", "") as memory:
        window(memory, "loaded?")
        yield memory


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "part"),
    [
        *((way, "vectors") for way in ("refused", "nameless", *WAYS)),
        *((way, "reranker") for way in ("refused", "silent", "dripping")),
        *((way, "reranker llm") for way in ("refused", "silent")),
        *((way, "summary") for way in ("too many requests", "silent")),
    ],
)
def test_a_dead_endpoint_stalls_one_window(way, part, dead, tmp_path, usual):
    said = {"vectors": "vector search unavailable", "summary": "nothing was summarised"}.get(
        part, "not reranked"
    )
    with Ailing() as server:
        server.way = WAYS.get(way, Reply())
        urls = {"refused": dead, "nameless": "http://x.invalid/v1"}
        with memory_at(tmp_path, part, urls.get(way, server.url)) as memory:
            first, notes = window(memory, "which port has machine 0?")
            assert said in notes
            assert first < LIMIT + 8  # the endpoints would take a minute, or never answer
            # Longer than the first pause: the endpoint is tried again in here.
            took, beside = stalls(memory, usual, 1.5, said)
    ordinary = statistics.median(beside)
    assert min(took) < max(min(beside) + MORE, 3 * min(beside))
    assert statistics.median(took) < max(ordinary + LIMIT / 4, 3 * ordinary)
    stalled = sum(spent > ordinary + LIMIT / 2 for spent in took)
    assert stalled <= max(1, len(took) // 10), "the window that tries the endpoint again may stall"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "part"), [("silent", "vectors"), ("too many requests", "vectors"), ("failing", "reranker")]
)
def test_an_endpoint_that_is_well_again_is_used_again(way, part, tmp_path):
    with Ailing() as server, memory_at(tmp_path, part, server.url) as memory:
        server.way = WAYS[way]
        assert window(memory, "which port?")[1]
        server.well = True
        wait_until(lambda: window(memory, "which port?")[1] == "")
