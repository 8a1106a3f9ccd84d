"""Does a memory stay bounded when it is used every day? A simulated year, and a picture of it.

    python bench/year.py [--tasks N] [--targets N] [--days N] [--picture FILE] [--json OUT]

Some minutes. An agent does 10,000 tasks in 365 days, about 50 targets whose names it writes in
several ways, some of them far more often than others. Some tasks fail, some are set off by an alert.
A third of them begin by recalling up to three of the newest episodes about their target. Every
night access counts are written, episodes are consolidated, and the gate forgets: down to 2,000
episodes, with 30 days of grace in the trash. Time is simulated; all else is the real thing, on a
file. The same options give the same year and, with the same matplotlib, the same picture.

Without ``--picture`` the picture is not drawn; drawing needs the extra ``bench``.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from shared import positive, table_of, write_json

from jiyi.long_term import Accesses
from jiyi.long_term.consolidation.consolidation import Consolidation
from jiyi.long_term.forget_gate.gate import ForgetGate
from jiyi.long_term.forget_gate.rules import ForgetRule
from jiyi.records import Episode, Hit, Query, Scope, Step, Task
from jiyi.storage import SqliteDatabase, Store, Trash
from jiyi.testing import ManualClock

ANA = Scope(user_id="ana", session_id="s")
DAYS = 365
MOST = 2_000  # episodes that stay
BINS = 41  # of importance: 0, 0.025, ... 1 lie in the middle of one
EDGE = 0.0125  # half a bin
NAMES = ("app-{} container", "the app-{} container", "app-{} 容器", "App-{} container")
WORKS = ("restart it", "renew its certificate", "free its disk", "扩容", "回滚版本", "check its backup")
CAUSES = ("the disk was full", "the port was taken", "证书过期", "a wrong password", "超时")

Dict = dict[str, Any]


@dataclass
class Year:
    """What was counted each night."""

    done: list[int] = field(default_factory=list)  # tasks so far
    episodes: list[int] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)
    knowledge: list[int] = field(default_factory=list)
    trash: list[int] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)
    unimportant: list[int] = field(default_factory=list)  # forgotten that night for their importance
    too_many: list[int] = field(default_factory=list)  # forgotten that night above the limit
    importance: list[list[int]] = field(default_factory=list)  # episodes by importance, in BINS
    median: list[float] = field(default_factory=list)  # importance of the episodes


class Simulation:
    """An agent, its memory, and its nights."""

    def __init__(self, path: Path, *, tasks: int, targets: int, days: int) -> None:
        self._random = random.Random(2026)
        self._clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        self._path, self._tasks, self._targets, self._days = path, tasks, targets, days
        self._database = SqliteDatabase(path)
        self._store, self._trash = Store(self._database), Trash(self._database)
        self._accesses = Accesses(self._store, clock=self._clock)
        self._consolidation = Consolidation(self._store, None, clock=self._clock)
        self._gate = ForgetGate(
            self._store,
            self._trash,
            rule=ForgetRule(max_episodes=MOST),
            clock=self._clock,
        )
        self._lying = 0
        self.year = Year()

    def live(self) -> Iterator[int]:
        """Live day by day."""
        done = 0
        for day in range(self._days):
            today = self._tasks * (day + 1) // self._days - done
            with self._store.transaction():
                for number in range(done, done + today):
                    self._clock.forward(hours=20 / max(1, today))
                    self._work(number)
            done += today
            self._clock.forward(hours=4)
            self._night(done)
            yield day
        self._accesses.close()
        self._database.close()

    def _work(self, number: int) -> None:
        """Do a task; now and then look first at what was done before."""
        place = int(self._targets * self._random.random() ** 2)
        name = self._random.choice(NAMES).format(place)
        if self._random.random() < 1 / 3:
            past = Query(scope=ANA, kinds=("episode",), target=name, newest_first=True, limit=3)
            found = self._store.find(past)
            self._accesses.note(ANA, [Hit(record=r, kind="episode", score=1.0) for r in found])
        task = self._ended(number, name, fails=0.05 + 0.25 * (place % 5 == 0))
        self._store.put([task, *task.steps, Episode.of_task(task)])

    def _ended(self, number: int, name: str, fails: float) -> Task:
        now, pick = self._clock(), self._random.choice
        outcome = self._random.choices(("failed", "partial", "success"), (fails, 0.15, 0.85 - fails))[0]
        cause, work = pick(CAUSES) if outcome == "failed" else "ok", pick(WORKS)
        steps = tuple(
            Step(
                id=f"step-{number}-{place}",
                scope=ANA,
                task_id=f"task-{number}",
                description=f"{work}, part {place + 1}",
                tool_name="shell",
                result=cause,
                status="completed",
                started_at=now,
                completed_at=now,
                seq=place,
            )
            for place in range(pick((1, 2, 2, 3, 5)))
        )
        return Task(
            id=f"task-{number}",
            scope=ANA,
            request=f"{name}: {work}",
            started_at=now,
            updated_at=now,
            completed_at=now,
            status="failed" if outcome == "failed" else "completed",
            outcome=outcome,
            summary=cause,
            target=name,
            trigger_type=self._random.choices(("user_request", "scheduled", "alert"), (6, 3, 1))[0],
            steps=steps,
        )

    def _night(self, done: int) -> None:
        self._accesses.flush()
        self._consolidation.run(Scope(user_id="ana"))
        receipt = self._gate.run(Scope(user_id="ana"))
        self._lying += receipt.total - receipt.erased
        went = {reason.split()[0]: count for reason, count in receipt.discarded.get("episode", {}).items()}
        year = self.year
        year.done.append(done)
        for kind, counts in (("episode", year.episodes), ("task", year.tasks), ("knowledge", year.knowledge)):
            counts.append(receipt.kept[kind])
        year.trash.append(self._lying)
        year.megabytes.append(_megabytes(self._path))
        year.unimportant.append(went.get("importance", 0))
        year.too_many.append(went.get("more", 0))
        worth = self._worth()
        year.importance.append([int(count) for count in np.histogram(worth, BINS, (-EDGE, 1 + EDGE))[0]])
        year.median.append(float(np.median(worth)) if worth else 0.5)

    def _worth(self) -> list[float]:
        query = Query(scope=Scope(user_id="ana"), kinds=("episode",), limit=10_000)
        return [e.importance for e in self._store.find(query) if isinstance(e, Episode)]


def _megabytes(path: Path) -> float:
    """Return the size of a database with its log."""
    return sum(file.stat().st_size for file in path.parent.iterdir()) / 1e6


def draw(year: Year, file: Path) -> None:
    """Draw the year; the same year gives the same bytes with the same matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update(
        {"svg.hashsalt": "jiyi", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    )
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        4, 1, figsize=(9, 11), sharex=True, height_ratios=(3, 1.4, 1.8, 3), layout="constrained"
    )
    figure.suptitle(
        f"A simulated year: {year.done[-1]:,} tasks, a nightly clean-up, at most {MOST:,} episodes"
    )
    last = len(year.done)
    days = np.arange(1, last + 1)
    draw_counts(axes[0], days, year)
    axes[1].plot(days, year.megabytes, color="tab:brown")
    axes[1].set_ylabel("file with log (MB)")
    axes[1].set_ylim(0)
    draw_forgotten(axes[2], year)
    draw_importance(figure, axes[3], year)
    axes[3].set_xlim(0, last)
    axes[3].set_xticks(range(0, last + 1, 30))
    axes[3].set_xlabel("day of the year")
    for axis in axes[:3]:
        axis.grid(alpha=0.3)
        axis.set_axisbelow(True)
    figure.savefig(file, dpi=110, metadata={"Date": None} if file.suffix == ".svg" else None)


def draw_counts(axis: Any, days: Any, year: Year) -> None:
    axis.plot(days, year.done, "--", color="gray", label="tasks done so far")
    axis.plot(days, year.trash, color="tab:orange", label="in the trash (episodes and tasks)")
    axis.plot(days, year.episodes, color="tab:blue", linewidth=2.2, label="episodes, each with its task")
    axis.plot(days, year.knowledge, color="tab:green", linewidth=2.2, label="knowledge")
    axis.set_ylabel("records")
    axis.set_ylim(0)
    axis.legend(loc="upper left", frameon=False)


def draw_forgotten(axis: Any, year: Year) -> None:
    """Weekly sums: nights differ too much to be read one by one."""
    weeks = np.arange(0, max(1, len(year.done) - 6), 7)
    low, many = (
        np.array([sum(nights[w : w + 7]) for w in weeks]) for nights in (year.unimportant, year.too_many)
    )
    style = {"width": 6, "align": "edge"}
    axis.bar(weeks, low, color="tab:red", label="importance below 0.25", **style)
    axis.bar(weeks, many, bottom=low, color="tab:purple", label=f"more than {MOST:,} episodes", **style)
    axis.set_ylabel("episodes forgotten\nper week")
    axis.set_ylim(0, 1.5 * max(1, *(low + many)))  # room for the legend
    axis.legend(loc="upper left", frameon=False)


def draw_importance(figure: Any, axis: Any, year: Year) -> None:
    counts = np.array(year.importance, float).T
    counts[counts == 0] = np.nan
    image = axis.imshow(
        counts,
        origin="lower",
        aspect="auto",
        extent=(0, len(year.done), -EDGE, 1 + EDGE),
        cmap="viridis_r",
        norm="log",
        interpolation="nearest",
    )
    axis.plot(
        np.arange(1, len(year.done) + 1), year.median, color="tab:orange", linewidth=1.5, label="median"
    )
    axis.axhline(0.25, color="tab:red", linewidth=1.2, linestyle="--", label="threshold, 0.25")
    axis.set_ylabel("importance (0 to 1)")
    axis.set_ylim(0, 1)
    axis.legend(loc="lower left", frameon=False)
    figure.colorbar(image, ax=axis, label="number of episodes", pad=0.01, format="%d")


def show(console: Console, year: Year, seconds: float) -> None:
    """Print how things stood at the end of each quarter."""
    table = table_of("", ("day", "tasks done", "episodes", "tasks", "knowledge", "trash", "file"), left=0)
    last = len(year.done)
    for day in sorted({min(30, last), *(last * quarter // 4 for quarter in range(1, 5))} - {0}):
        n = day - 1
        counts = (year.done, year.episodes, year.tasks, year.knowledge, year.trash)
        table.add_row(str(day), *(f"{numbers[n]:,}" for numbers in counts), f"{year.megabytes[n]:.1f} MB")
    console.print(table)
    console.print(
        f"forgotten: {sum(year.unimportant):,} for their importance, {sum(year.too_many):,} above the limit; "
        f"the year took {seconds:.1f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tasks", type=positive, default=10_000)
    parser.add_argument("--targets", type=positive, default=50)
    parser.add_argument("--days", type=positive, default=DAYS)
    parser.add_argument("--picture", type=Path, help="draw the year into this file, .svg or .png")
    parser.add_argument("--json", type=Path, help="write what was counted to this file")
    given = parser.parse_args()
    console = Console()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "agent.db"
        simulation = Simulation(file, tasks=given.tasks, targets=given.targets, days=given.days)
        for _ in track(simulation.live(), "day by day", given.days, console=Console(stderr=True)):
            pass
    show(console, simulation.year, time.perf_counter() - began)
    if given.picture:
        draw(simulation.year, given.picture)
    write_json(given.json, vars(simulation.year))


if __name__ == "__main__":
    main()
