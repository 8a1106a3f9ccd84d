"""Whatever reads foreign bytes gets damaged and arbitrary ones: an answer or a typed error, and soon.

    python tests/campaigns/fuzz_readers.py --minutes 10 [--seed 1] [--reader import ...] [--guided]

`READERS` lists them: imports, exports, dates, statements, questions, front matter, filters, tool outputs,
windows, what a model answers, MessagePack. Each has samples, mostly sound ones; the campaign damages them.
With ``--guided`` (`pip install atheris`; Linux and macOS) libFuzzer looks for bytes that reach code not run
before, and each reader has a process and its share of the time.

The oracle, after each call: it returned, or raised what `READERS` allows, and took at most 5 seconds of CPU.
Prints JSON; exit code 1 on a fault.
"""

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
INSIDE = "--inside" in sys.argv  # a process that libFuzzer steers: it must see the package imported
sys.path[:0] = [str(TESTS)]

with importlib.import_module("atheris").instrument_imports(include=["jiyi"]) if INSIDE else nullcontext():
    import jiyi
    from jiyi.compression.tool_output import ToolOutput
    from jiyi.errors import JiyiError
    from jiyi.extraction.by_llm import read_by_llm
    from jiyi.extraction.reading import extract_message
    from jiyi.importers.databases import unpack
    from jiyi.llm.answers import read_reply, read_turn
    from jiyi.llm.llm import Reply
    from jiyi.long_term.recall.question import parse_question
    from jiyi.records import Message
    from jiyi.records.filters import read_filter
    from jiyi.skills.registry import parse_front_matter
    from jiyi.testing import HashEmbedder
    from jiyi.text.dates import find_dates

from campaign_run import asked, told  # noqa: E402
from importers.damaged_variants import damaged  # noqa: E402

SECONDS = 5.0  # of CPU, most of a call
LONGEST = 20_000  # bytes of what libFuzzer makes
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SAMPLES = json.loads((TESTS / "campaigns" / "data" / "fuzz_readers.json").read_text("utf-8"))
SAID = SAMPLES["said"]
ROWS = [{"id": n, "name": f"n{n}", "state": {"ok": n % 7 > 0, "at": [n, None]}} for n in range(60)]
FRONT = b"name: one\ndescription: 'what it is: that'\nmetadata:\n  tags: [a, b]\n  n: &x 1\n  m: *x\n"


@dataclass(frozen=True, slots=True)
class Reader:
    """One way in: what is called with the bytes, what it may raise, and what it is tried with."""

    call: Callable[[bytes], object]
    samples: Sequence[bytes]
    raises: tuple[type[Exception], ...] = (JiyiError,)


@dataclass(slots=True)
class Found:
    """What became of the calls."""

    calls: int = 0
    slowest: float = 0.0
    faults: dict[str, str] = field(default_factory=dict)

    def tried(self, name: str, reader: Reader, data: bytes) -> None:
        """Make one call and judge it."""
        began = time.process_time()
        try:
            reader.call(data)
        except reader.raises:
            pass
        except Exception as error:  # whatever it is, it is a fault
            place = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__} in {Path(place.filename).name}:{place.name}"
            self.fault(name, what, f"{error!s:.200} {data[:300]!r}")
        took = time.process_time() - began
        self.calls, self.slowest = self.calls + 1, max(self.slowest, took)
        if took > SECONDS:
            self.fault(name, f"took over {SECONDS:.0f} s", f"{took:.1f} s, {len(data)} bytes: {data[:300]!r}")

    def fault(self, name: str, what: str, detail: str) -> None:
        if f"{name}: {what}" not in self.faults:
            self.faults[f"{name}: {what}"] = detail
            if INSIDE:
                print(json.dumps({f"{name}: {what}": detail}), flush=True)


class Answering:
    """A model that answers with the bytes it was made of."""

    def __init__(self, data: bytes) -> None:
        self.text = data.decode("utf-8", "replace")

    def complete(self, messages: Sequence[Any], **_: Any) -> Reply:
        return Reply(text=self.text)


def text_of(data: bytes) -> str:
    """Return bytes as text; what is no UTF-8 becomes lone surrogates, which a caller may hand in, too."""
    return data.decode("utf-8", "surrogateescape")


def written(name: str) -> bytes:
    return json.dumps(SAMPLES[name]).encode()


def statements(data: bytes) -> object:
    return extract_message(Message(role="user", content=text_of(data), created_at=NOW), UTC, SAID[:1])


def readers(folder: Path) -> dict[str, Reader]:
    """Return the readers by name; those of files write below a folder."""
    memory = jiyi.open(folder / "a.db", user_id="ana", embedder=HashEmbedder(), background=False)
    for place, text in enumerate(SAID):
        memory.save_message(f"s{place}", role="user", content=text)
    memory.complete_task(memory.start_task("s0", "look").id, summary="found")
    memory.export(folder / "good.jsonl")
    short, texts = ToolOutput(max_tokens=80), [one.encode() for one in SAID]
    message = Message(role="user", content=SAID[0], id="m", created_at=NOW)

    def import_(data: bytes) -> object:
        (folder / "in").write_bytes(data)
        return memory.import_(folder / "in", dry_run=True)

    def window(data: bytes) -> object:
        text = text_of(data)
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": text[:2_000]}}
        memory.save_messages(
            "w",
            [
                {"role": "user", "content": text},
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": text},
            ],
        )
        try:
            return memory.build_context("w", query=text[:500], budget=800)
        finally:
            memory.forget(session_id="w", purge=True)

    files = [f.read_bytes() for f in sorted((TESTS / "importers/samples").rglob("*.*")) if f.suffix != ".py"]
    return {
        "import": Reader(import_, [*files, (folder / "good.jsonl").read_bytes()]),
        "dates": Reader(lambda data: find_dates(text_of(data), NOW), texts),
        "statements": Reader(statements, texts),
        "question": Reader(lambda data: parse_question(text_of(data), NOW), [*texts, "我住哪儿？".encode()]),
        "front matter": Reader(lambda data: parse_front_matter(text_of(data)), [FRONT]),
        "filter": Reader(
            lambda data: read_filter(json.loads(data)),
            [written("wanted")],
            (JiyiError, ValueError, RecursionError),
        ),
        "tool output": Reader(lambda data: short(text_of(data)), [json.dumps(ROWS).encode(), texts[1] * 30]),
        "window": Reader(window, [*texts, json.dumps(ROWS).encode()]),
        "reply": Reader(
            lambda data: (read_reply(data), read_turn(data)),
            [written("turn")],
            (ValueError,),
        ),
        "model's facts": Reader(lambda data: read_by_llm(Answering(data), [message]), [written("answer")]),
        "MessagePack": Reader(
            unpack,
            [b"\x83\xa1a\x93\x01\xcb" + bytes(8) + b"\xc0\xa1b\xc4\x02xy\xa1c\xd4\x05z"],
            (ValueError,),
        ),
    }


def run(seconds: float, seed: int, names: Sequence[str] = ()) -> dict[str, Any]:
    """Damage the samples of the readers for so long, in turns; return the figures."""
    began, found, by_reader = time.monotonic(), Found(), dict[str, int]()
    with tempfile.TemporaryDirectory() as folder:
        chosen = {name: one for name, one in readers(Path(folder)).items() if not names or name in names}
        while time.monotonic() - began < seconds:
            for name, reader in chosen.items():
                sample = reader.samples[seed % len(reader.samples)]
                found.tried(name, reader, damaged(sample, seed) if seed % 17 else sample)
                by_reader[name] = by_reader.get(name, 0) + 1
            seed += 1
    return {"calls": by_reader, "slowest": round(found.slowest, 2), "faults": found.faults}


def guided(seconds: float, seed: int, names: Sequence[str]) -> dict[str, Any]:
    """Let libFuzzer steer, a process a reader, one after another; return the figures."""
    calls, faults = dict[str, int](), dict[str, str]()
    for name in names:
        command = [sys.executable, __file__, "--inside", name, "--seed", str(seed), "--minutes"]
        done = subprocess.run(
            [*command, str(seconds / len(names) / 60)], check=False, capture_output=True, text=True
        )
        executed = re.search(r"number_of_executed_units: (\d+)", done.stderr)
        calls[name] = int(executed[1]) if executed else 0
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                faults |= json.loads(line)
        if done.returncode or not executed:
            faults[f"{name}: ended with {done.returncode}"] = done.stderr[-1_500:]
    return {"calls": calls, "faults": faults}


def inside(name: str, seconds: float, seed: int) -> None:
    """Be the process that libFuzzer steers; does not return."""
    atheris = importlib.import_module("atheris")
    folder = Path(tempfile.mkdtemp())
    reader, found = readers(folder)[name], Found()
    (folder / "corpus").mkdir()
    for place, sample in enumerate(reader.samples):
        (folder / "corpus" / str(place)).write_bytes(sample[:LONGEST])
    limits = [f"-max_total_time={seconds:.0f}", f"-max_len={LONGEST}", f"-seed={seed}", "-timeout=60"]
    os.chdir(folder)
    atheris.Setup(
        [sys.argv[0], *limits, "-rss_limit_mb=2048", "-print_final_stats=1", str(folder / "corpus")],
        lambda data: found.tried(name, reader, data),
    )
    atheris.Fuzz()


def main() -> int:
    given = asked(__doc__, reader=[], guided=False, inside="")
    if given.inside:
        inside(given.inside, 60 * given.minutes, given.seed)
    if given.guided:
        with tempfile.TemporaryDirectory() as folder:
            names = given.reader or list(readers(Path(folder)))
        return told(guided(60 * given.minutes, given.seed, names))
    return told(run(60 * given.minutes, given.seed, given.reader))


if __name__ == "__main__":
    sys.exit(main())
