"""Does a long run grow? A mixed load of the verbs, for a time, while memory, handles and latency are watched.

    python tests/campaigns/soak.py [--minutes N] [--operations N] [--seed S] [--db URL]

Users come and go: each lives for so many operations, then everything of them is purged and somebody else of
`NAMES` takes the place. So the amount that is stored stays the same, and so must all that is measured.
The oracle: in the last third no figure of the second half is above that of the first half by more than
`LIMITS` says. Memory and objects count as growing only if they still rise in the last interval: a cache that
is full stops. The largest, the windows of 1,000 sessions, is full after about 17,000 operations, so a verdict
takes three times as many. Latency is CPU time of the caller. A verb that raises is a fault too.
`--db` names a server or a served memory instead of a file; then what is measured is this program, the client.
"""

import contextlib
import gc
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from campaign_run import asked, told

import jiyi
from jiyi.testing import HashEmbedder

USERS, LIFE, INTERVALS = 20, 20, 30
NAMES = 400  # more would fill the caches of users, which have room for many, for hours
WORDS = (
    *("port", "router", "backup", "Ana", "Berlin", "tea", "invoice", "nginx", "recipe", "train", "violet"),
    *("端口", "数据库", "部署", "周一", "喜欢"),
)
LIMITS = {"rss_mb": 1.02, "objects": 1.01, "handles": 1.0, "threads": 1.0, "p50_ms": 1.3}
IN_CACHES = {"rss_mb", "objects"}

Verb = Callable[[Any, random.Random, str], object]


def _said(drawn: random.Random) -> str:
    return " ".join(drawn.choices(WORDS, k=drawn.randint(3, 30))) + f" is {drawn.randrange(1_000)}"


def _task(memory: Any, drawn: random.Random, user: str) -> None:
    task = memory.start_task("work", request=_said(drawn), user_id=user)
    step = memory.add_step(task.id, description=_said(drawn), user_id=user)
    memory.update_step(step.id, status="completed", result=_said(drawn), user_id=user)
    memory.complete_task(task.id, summary=_said(drawn), user_id=user)


def _forget(memory: Any, drawn: random.Random, user: str) -> None:
    found = memory.session_messages("s1", user_id=user)
    if found:
        gone = memory.forget(ids=[drawn.choice(found).id], user_id=user)
        if drawn.random() < 0.5:
            memory.restore(forgotten_at=gone.at, user_id=user)


def _export(memory: Any, drawn: random.Random, user: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory.export(Path(folder) / f"{drawn.randrange(9)}.jsonl", user_id=user)


VERBS: dict[str, tuple[int, Verb]] = {
    "save_message": (
        40,
        lambda m, d, u: m.save_message(
            f"s{d.randrange(3)}", role=d.choice(["user", "assistant"]), content=_said(d), user_id=u
        ),
    ),
    "save_messages": (
        4,
        lambda m, d, u: m.save_messages("s1", [{"role": "user", "content": _said(d)}] * 3, user_id=u),
    ),
    "build_context": (20, lambda m, d, u: m.build_context(f"s{d.randrange(3)}", query=_said(d), user_id=u)),
    "search": (15, lambda m, d, u: m.search(_said(d), user_id=u)),
    "remember": (5, lambda m, d, u: m.remember(f"{_said(d)}. I live in {d.choice(WORDS)}.", user_id=u)),
    "facts": (3, lambda m, d, u: (m.facts(user_id=u), m.profile(user_id=u))),
    "task": (3, _task),
    "lists": (3, lambda m, d, u: (m.sessions(user_id=u), m.tasks(user_id=u), m.episodes(user_id=u))),
    "handover": (1, lambda m, d, u: (m.handover("s1", user_id=u), m.session_health("s1", user_id=u))),
    "summarize_session": (1, lambda m, d, u: m.summarize_session("s1", user_id=u)),
    "pop_message": (1, lambda m, d, u: m.pop_message("s2", user_id=u)),
    "forget": (2, _forget),
    "export": (1, _export),
    "stats": (1, lambda m, d, u: m.stats(user_id=u)),
}


def _operations(memory: Any, drawn: random.Random) -> Iterator[tuple[str, Callable[[], object]]]:
    """Give what to do next, for ever."""
    names, weights = list(VERBS), [weight for weight, _ in VERBS.values()]
    users, born = [f"u{n}" for n in range(USERS)], USERS
    ages = [drawn.randrange(LIFE) for _ in users]
    while True:
        place = drawn.randrange(USERS)
        user = users[place]
        ages[place] += 1
        if ages[place] > LIFE:
            yield "purge", lambda user=user: memory.forget(everything=True, purge=True, user_id=user)
            users[place], ages[place], born = f"u{born % NAMES}", 0, born + 1
            continue
        name = drawn.choices(names, weights)[0]
        verb = VERBS[name][1]
        yield name, lambda verb=verb, user=user: verb(memory, drawn, user)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Keep other threads from running: a list of all objects would keep alive what they have done with.

    A cursor that lives on is a statement that SQLite thinks is still running, and refuses to commit beside.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(600)
    time.sleep(0.01)  # whoever waits by the old interval runs now
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _figures(took: list[float], done: int, seconds: float) -> dict[str, float]:
    gc.collect()
    with _alone():
        objects = len(gc.get_objects())
    status = Path("/proc/self/status").read_text("ascii")
    kept = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    return {
        "operations": done,
        "seconds": round(seconds),
        "rss_mb": round(int(kept["VmRSS"].split()[0]) / 1024, 1),
        "objects": objects,
        "handles": len(os.listdir("/proc/self/fd")),
        "threads": int(kept["Threads"]),
        "p50_ms": round(1000 * statistics.median(took), 2),
        "p99_ms": round(1000 * sorted(took)[int(len(took) * 0.99)], 2),
    }


def _kinds() -> Counter[str]:
    with _alone():
        return Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())


def soak(
    db: str, *, minutes: float, operations: int, seed: int, tell: Callable[[dict[str, float]], object]
) -> tuple[list[dict[str, float]], Counter[str]]:
    """Return the figures of each interval, and what was raised; ends after so much time or work."""
    rows: list[dict[str, float]] = []
    faults: Counter[str] = Counter()
    served = db.startswith("http")
    # A disk that others keep busy may hold a write for longer than the 5 s by default.
    local = {"embedder": HashEmbedder(), "lock_timeout": 60}
    with jiyi.connect(db) if served else jiyi.open(db, **local) as memory:
        began = time.monotonic()
        took: list[float] = []
        kinds: Counter[str] = Counter()
        for done, (name, act) in enumerate(_operations(memory, random.Random(seed)), 1):
            started = time.thread_time()
            try:
                act()
            except Exception as error:  # whatever it is, it is a fault
                faults[f"{name}: {type(error).__name__}: {error}"[:200]] += 1
            took.append(time.thread_time() - started)
            seconds = time.monotonic() - began
            reached = max(seconds / (60 * minutes), done / operations)
            if reached >= (len(rows) + 1) / INTERVALS:
                rows.append(_figures(took, done, seconds))
                if len(rows) == INTERVALS // 3:
                    kinds = _kinds()
                tell(rows[-1])
                took = []
            if reached >= 1:
                more = (_kinds() - kinds).most_common(8)
                print("objects since the first third, by kind:", json.dumps(more))
                return rows, faults
    raise AssertionError("the operations never end")


def grown(rows: list[dict[str, float]]) -> list[str]:
    """Return what still grows: the halves of the last third are compared, by medians."""
    last = rows[-(len(rows) // 3) :]
    before, after = last[: len(last) // 2], last[len(last) // 2 :]
    out = []
    for name, most in LIMITS.items():
        was, now = (statistics.median(row[name] for row in part) for part in (before, after))
        rises = name not in IN_CACHES or rows[-1][name] > now
        if now > was * most and rises:
            out.append(f"{name} grew from {was:g} to {now:g}")
    return out


def main() -> int:
    given = asked(__doc__, minutes=60.0, operations=10**9, db="")
    limits = {"minutes": given.minutes, "operations": given.operations, "seed": given.seed}
    with tempfile.TemporaryDirectory() as folder:
        db = given.db or f"{folder}/soak.db"
        rows, faults = soak(db, **limits, tell=lambda row: print(json.dumps(row), flush=True))
    found = [*grown(rows), *(f"{count} x {what}" for what, count in faults.most_common())]
    return told({"operations": rows[-1]["operations"], "seed": given.seed, "faults": found})


if __name__ == "__main__":
    sys.exit(main())
