"""How long does a large memory take to learn from its episodes and to forget them?

    python bench/life.py [--episodes N] [--targets N] [--json OUT]

About two minutes for the 100,000 episodes of one user that it takes by default. They are spread
over a year and over 2,000 targets, whose names are written in several ways; each has its task
with steps. Most were never recalled, a few often.

What is measured, each part in a process of its own, one after the other on one file:

- consolidation: every group of at least three episodes of one target becomes one `Knowledge`.
- forgetting: the importance of all episodes is recomputed; those worth too little go into
  the trash, then the least important down to 10,000; their tasks go with them.
- forgetting again: the same on what is left, as it is every night after the first.

The floor they are compared with is the least that one could write: one table without words,
vectors, tasks or a trash. It reads all rows at once, groups them by the exact name of the target
and adds one row for each group; it computes the same importance, writes it and deletes row by
row, and commits once. It could not take anything back, and other writers would wait throughout.

"memory" is the most the process took, with Python, numpy and jiyi (the floor: with apsw) in it.
"""

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
from rich.console import Console
from shared import answer_of, machine, positive, table_of, write_json

from jiyi.long_term.consolidation.consolidation import Consolidation
from jiyi.long_term.forget_gate.gate import ForgetGate
from jiyi.long_term.forget_gate.rules import ForgetRule
from jiyi.records import Episode, Scope, Step, Task
from jiyi.storage import SqliteDatabase, Store, Trash

ANA = Scope(user_id="ana")
NOW = datetime(2026, 7, 1, tzinfo=UTC)
CHUNK = 2_000  # episodes of one transaction while loading
NAMES = ("host-{} container", "the host-{} container", "host-{} 容器", "Host-{}  container")
WORKS = ("restart it", "renew its certificate", "free its disk", "扩容", "回滚版本", "check its backup")
CAUSES = ("the disk was full", "the port was taken", "证书过期", "a wrong password", "超时")
PARTS = ("consolidation", "forgetting", "forgetting again")
FLOOR = {"consolidation": "group", "forgetting": "forget"}

Dict = dict[str, Any]


def episodes(count: int, targets: int) -> Iterator[tuple[Task, Episode]]:
    """Give tasks and what became of them, the same ones each time, oldest first."""
    rng = random.Random(2026)
    for number in range(count):
        at = NOW - timedelta(days=365) * (1 - number / count)
        scope = Scope(user_id="ana", session_id=f"s-{number // 20}")
        target = int(targets * rng.random() ** 1.5)
        name = rng.choice(NAMES).format(target)
        outcome = rng.choices(("success", "partial", "failed"), (7, 2, 1))[0]
        work, cause = rng.choice(WORKS), rng.choice(CAUSES)
        steps = tuple(
            Step(
                id=f"step-{number}-{place}",
                scope=scope,
                task_id=f"task-{number}",
                description=f"{work}, part {place + 1}",
                tool_name="shell",
                result=cause if outcome == "failed" and place == 0 else "ok",
                status="completed",
                started_at=at,
                completed_at=at,
                seq=place,
            )
            for place in range(rng.choice((1, 2, 2, 3, 5)))
        )
        task = Task(
            id=f"task-{number}",
            scope=scope,
            request=f"{name}: {work}",
            started_at=at,
            updated_at=at,
            completed_at=at,
            status="failed" if outcome == "failed" else "completed",
            outcome=outcome,
            summary=cause if outcome == "failed" else "done",
            target=name,
            trigger_type=rng.choices(("user_request", "scheduled", "alert"), (6, 3, 1))[0],
            steps=steps,
        )
        recalled = int(rng.paretovariate(1.2)) - 1 if rng.random() < 0.3 else 0
        made = Episode.of_task(task)
        yield (
            task,
            Episode(
                **{name: getattr(made, name) for name in made.__dataclass_fields__}
                | {"access_count": recalled}
            ),
        )


def load(path: Path, count: int, targets: int) -> None:
    """Write the memory that is measured."""
    database = SqliteDatabase(path)
    store = Store(database)
    chunk: list[Any] = []
    for number, (task, episode) in enumerate(episodes(count, targets), 1):
        chunk += [task, *task.steps, episode]
        if number % CHUNK == 0 or number == count:
            store.put(chunk)
            chunk = []
    database.close()


def measured(work: Callable[[], Dict]) -> Dict:
    """Return what some work said, with its seconds and the most memory the process took."""
    began, busy = time.perf_counter(), time.process_time()
    said = work()
    seconds, cpu = time.perf_counter() - began, time.process_time() - busy
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return said | {"seconds": seconds, "cpu": cpu, "rss": rss}


def learn_or_forget(path: Path, part: str) -> Dict:
    """Do one part on a file with jiyi."""
    database = SqliteDatabase(path)
    store, trash = Store(database), Trash(database)

    def clock() -> datetime:
        return NOW

    def learn() -> Dict:
        receipt = Consolidation(store, None, clock=clock).run(ANA)
        return {"knowledge": len(receipt.created), "episodes": receipt.episodes, "waiting": receipt.waiting}

    def forget() -> Dict:
        receipt = ForgetGate(store, trash, clock=clock).run(ANA)
        gone = receipt.discarded.get("episode", {})
        return {
            "recomputed": receipt.recomputed,
            "discarded": sum(gone.values()),
            "kept": receipt.kept["episode"],
        }

    said = measured(learn if part == "consolidation" else forget)
    database.close()
    return said


def load_floor(path: Path, count: int, targets: int) -> None:
    """Write the plain table."""
    db = apsw.Connection(str(path))
    db.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
    db.execute(
        "CREATE TABLE episodes (id TEXT PRIMARY KEY, created REAL, outcome TEXT, trigger TEXT, recalled INT,"
        " steps TEXT, target TEXT, text TEXT, importance REAL, consolidated INT);"
        "CREATE TABLE knowledge (target TEXT, content TEXT)"
    )
    rows = (
        (
            e.id,
            e.created_at.timestamp(),
            e.outcome,
            e.trigger_type,
            e.access_count,
            json.dumps([step.description for step in e.steps]),
            e.target,
            e.search_text,
            e.importance,
        )
        for _, e in episodes(count, targets)
    )
    with db:
        db.executemany("INSERT INTO episodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)", rows)
    db.close()


def group(db: apsw.Connection) -> Dict:
    """Add one row of knowledge for each target, by its exact name."""
    groups: dict[str, list[Any]] = defaultdict(list)
    for row in db.execute("SELECT * FROM episodes").fetchall():
        groups[row[6]].append(row)
    large = {name: rows for name, rows in groups.items() if len(rows) >= 3}
    with db:
        for name, rows in large.items():
            well = sum(row[2] == "success" for row in rows)
            db.execute("INSERT INTO knowledge VALUES (?, ?)", (name, f"{well} of {len(rows)} went well"))
            db.executemany("UPDATE episodes SET consolidated = 1 WHERE id = ?", [(row[0],) for row in rows])
    return {"knowledge": len(large)}


def forget(db: apsw.Connection) -> Dict:
    """Compute, write, delete row by row."""
    rule, now = ForgetRule(), NOW.timestamp()
    worth: dict[str, tuple[float, float]] = {}
    for row in db.execute("SELECT * FROM episodes").fetchall():
        age = max(0.0, now - row[1]) / 3600
        value = 0.5 - min(0.3, 0.1 * age / 720) + min(0.2, 0.05 * row[4])
        value += {"success": 0.1, "failed": -0.05}.get(row[2], 0) + 0.15 * (row[3] == "alert")
        value += 0.1 * (len(json.loads(row[5])) > 3)
        worth[row[0]] = (min(1.0, max(0.0, value)), age)
    gone = {id_ for id_, (value, age) in worth.items() if value < rule.threshold and age > 7 * 24}
    left = sorted(
        (item for item in worth.items() if item[0] not in gone), key=lambda item: (item[1][0], -item[1][1])
    )
    gone |= {id_ for id_, _ in left[: max(0, len(left) - rule.max_episodes)]}
    with db:
        for id_, (value, _) in worth.items():
            db.execute("UPDATE episodes SET importance = ? WHERE id = ?", (value, id_))
        for id_ in gone:
            db.execute("DELETE FROM episodes WHERE id = ?", (id_,))
    return {"recomputed": len(worth), "discarded": len(gone), "kept": len(worth) - len(gone)}


def floor(path: Path, part: str) -> Dict:
    """Do one part on the plain table."""
    db = apsw.Connection(str(path))
    db.execute("PRAGMA synchronous=FULL")
    said = measured(lambda: group(db) if part == "group" else forget(db))
    db.close()
    return said


def step(name: str, folder: Path, count: int, targets: int) -> Dict:
    """Do one step; each is called in a process of its own."""
    match name:
        case "load":
            load(folder / "jiyi.db", count, targets)
            load_floor(folder / "floor.db", count, targets)
            return {}
        case "group" | "forget":
            return floor(folder / "floor.db", name)
        case _:
            return learn_or_forget(folder / "jiyi.db", name)


def show(console: Console, count: int, rows: Dict) -> None:
    """Print the figures."""
    columns = ("", "seconds", "memory", "floor", "memory", "x floor")
    table = table_of(f"{count:,} episodes", columns)
    for part in PARTS:
        ours, plain = rows[part], rows.get(FLOOR.get(part, ""))
        compared = (f"{plain['seconds']:.1f}", f"{plain['rss'] / 1e6:.0f} MB") if plain else ("", "")
        ratio = f"{ours['seconds'] / plain['seconds']:.1f}" if plain else ""
        table.add_row(part, f"{ours['seconds']:.1f}", f"{ours['rss'] / 1e6:.0f} MB", *compared, ratio)
    both = sum(rows[part]["seconds"] for part in PARTS[:2])
    most = max(rows[part]["rss"] for part in PARTS)
    table.add_row("the first two", f"{both:.1f}", f"{most / 1e6:.0f} MB")
    console.print(table)
    for part in PARTS:
        figures = {k: v for k, v in rows[part].items() if k not in ("seconds", "cpu", "rss")}
        console.print(f"{part}: " + ", ".join(f"{k} {v:,}" for k, v in figures.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--episodes", type=positive, default=100_000)
    parser.add_argument("--targets", type=positive, default=2_000)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        print(json.dumps(step(given.step, given.folder, given.episodes, given.targets)))
        return
    console = Console()
    console.print(machine())
    with tempfile.TemporaryDirectory() as folder:
        names = ("load", *FLOOR.values(), *PARTS)
        sizes = ("--folder", folder, "--episodes", given.episodes, "--targets", given.targets)
        rows = {name: answer_of(Path(__file__), "--step", name, *sizes) for name in names}
    show(console, given.episodes, rows)
    write_json(given.json, rows)


if __name__ == "__main__":
    main()
