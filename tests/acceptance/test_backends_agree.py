"""One long use of all verbs gives the same on a file and on a server, to the last byte."""

import json
import re
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from tables import read_tables

import jiyi
from jiyi.testing import HashEmbedder, ManualClock

pytestmark = pytest.mark.slow

OPS = Path(__file__).parents[2] / "examples"
QUESTIONS = read_tables(__file__)["questions"]
MADE = re.compile(r"\b[0-9a-f]{32}\b")
UNEVEN = re.compile(
    r'"(?:access_count|last_accessed_at)": [^,\n]*|(?:access_count|last_accessed_at|seconds)=[^,)]*'
)  # what is counted some time after a search, and how long things took


def plain(value):
    """What was returned as JSON, with ids that were made by chance numbered by their coming."""
    numbers, names = count(), {}
    text = json.dumps(value, default=str, ensure_ascii=False, indent=1)
    text = UNEVEN.sub("", text)
    return MADE.sub(lambda found: names.setdefault(found[0], f"id-{next(numbers)}"), text)


def hits(found):
    return [(h.kind, h.id, round(h.score, 4), h.text, h.outdated_by) for h in found] + [list(found.notes)]


def fill(memory):
    yield "import", memory.import_(OPS / "ops.jsonl", session_id="ops").counts
    for task in json.loads((OPS / "ops-tasks.json").read_text(encoding="utf-8")):
        started = datetime.fromisoformat(task["started_at"])
        made = memory.start_task(
            task["session_id"], task["request"], target=task.get("target"), started_at=started
        )
        for step in task["steps"]:
            memory.add_step(
                made.id, step["description"], result=step["result"], status="completed", at=started
            )
        memory.complete_task(made.id, summary=task["request"][:40], at=started + timedelta(hours=1))
    learned = [memory.remember(subject="edge-01", predicate="port", object=port) for port in ("8443", "9443")]
    yield "learned", [asdict(one) for one in learned]
    yield "flushed", memory.flush()


def ask(memory):
    for question in QUESTIONS:
        yield question, hits(memory.search(question, limit=20))
        yield f"why {question}", [sorted(h.why) for h in memory.search(question, limit=3)]
        window = memory.build_context("2026-03-02-edge-502", question, 1500)
        yield f"window {question}", [window.messages, window.report.to_dict()["sections"]]
    yield "facts", [asdict(f) for f in memory.facts(subject="edge-01")]
    yield "history", [asdict(f) for f in memory.history("edge-01", "port")]
    yield "sessions", [asdict(s) for s in memory.sessions()]
    yield "tasks", [asdict(t) for t in memory.tasks()]
    yield "stats", dict(memory.stats())


def change(memory, clock, folder):
    yield "dry", asdict(memory.forget("nginx", dry_run=True))
    gone = memory.forget("nginx", reason="test")
    yield "forgotten", gone.counts
    yield "without", hits(memory.search("nginx 502", limit=10))
    yield "back", asdict(memory.restore(forgotten_at=gone.at))
    clock.forward(days=400)
    yield "maintained", str(memory.maintain(dry_run=True))
    yield "consolidated", str(memory.run_consolidation())
    yield "summary", memory.summarize_session("2026-03-02-edge-502").text
    yield "purged", memory.forget(session_id="2026-03-02-edge-502", purge=True).counts
    yield "after", [dict(memory.stats()), memory.flush()]
    file = folder / "all.jsonl"
    yield "exported", memory.export(file).counts
    yield "lines", [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_a_server_does_what_a_file_does(tmp_path, postgres_url):
    said = []
    for place in (tmp_path / "agent.db", postgres_url):
        clock = ManualClock(datetime.fromisoformat("2026-03-30T12:00:00+00:00"))
        options = {"user_id": "ana", "embedder": HashEmbedder(), "background": False, "clock": clock}
        with jiyi.open(place, **options) as memory:
            steps = [*fill(memory), *ask(memory), *change(memory, clock, tmp_path), *ask(memory)]
        said.append([(name, plain(value)) for name, value in steps])
    on_file, on_server = said
    for expected, found in zip(on_file, on_server, strict=True):
        assert found == expected
