"""Many clients of one memory that save at the same time, for postgres.py: each is a user of its own."""

import json
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import Thread
from typing import Any

from postgres_steps import SESSION, BareSaves, Lookup, open_memory

__all__ = ["clients"]

Saver = Callable[[], object]
_FORK = multiprocessing.get_context("fork")  # what was imported need not be imported by each


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """What all clients share."""

    system: str
    folder: Path
    threads: int  # of each process
    seconds: float  # how long they save
    barrier: Barrier  # passed when all are connected, and when all are done
    counts: Any  # saves of each client


def clients(system: str, way: str, folder: Path, number: int, seconds: float) -> dict[str, Any]:
    """Let clients save for some seconds; return their saves a second and how busy the machine was.

    As "processes" they share nothing but the server or the file, as "threads" a process and its
    memory. "busy" and "waiting" are cores of the whole machine: at work, and waiting for the disk.
    """
    os.setpgid(0, 0)  # so that all of them end together
    crowd = Crowd(
        system=system,
        folder=folder,
        threads=number if way == "threads" else 1,
        seconds=seconds,
        barrier=_FORK.Barrier(number + 1),
        counts=_FORK.Array("q", number),
    )
    groups = [_FORK.Process(target=_group, args=(crowd, n)) for n in range(0, number, crowd.threads)]
    for group in groups:
        group.start()
    crowd.barrier.wait()
    before, began = _cores(), time.perf_counter()
    crowd.barrier.wait()
    took, after = time.perf_counter() - began, _cores()
    for group in groups:
        group.join()
    saved = list(crowd.counts)
    return {
        "system": system,
        "way": way,
        "clients": number,
        "saves": sum(saved),
        "slowest": min(saved),
        "per_second": sum(saved) / took,
        "busy": (after[0] - before[0]) / took,
        "waiting": (after[1] - before[1]) / took,
    }


def _group(crowd: Crowd, first: int) -> None:
    """Be one process of clients; when one fails all end, as the others' figures would say nothing."""
    try:
        with ExitStack() as stack:
            savers = _savers(crowd, first, stack)
            for saver in savers:
                saver()  # connections, dictionaries and the user's row are there then
            some = [
                Thread(target=_go_on, args=(crowd, saver, place)) for place, saver in enumerate(savers, first)
            ]
            for one in some:
                one.start()
            for one in some:
                one.join()
    except BaseException:
        _give_up()


def _savers(crowd: Crowd, first: int, stack: ExitStack) -> list[Saver]:
    users = [f"client-{os.getpid()}-{first + place}" for place in range(crowd.threads)]
    if crowd.system == "bare":
        return [stack.enter_context(closing(BareSaves(crowd.folder, user))).save for user in users]
    texts = json.loads((crowd.folder / "texts.json").read_text("utf-8"))
    pool = dict.fromkeys(("pool_min", "pool_max"), crowd.threads) if crowd.system == "postgresql" else {}
    opened = open_memory(crowd.system, crowd.folder, embedder=Lookup(), lock_timeout=60, **pool)
    memory = stack.enter_context(opened)
    return [partial(_save, memory, user, texts, count(place)) for place, user in enumerate(users, first)]


def _save(memory: Any, user: str, texts: list[str], numbers: "count[int]") -> None:
    number = next(numbers)
    text = texts[number % len(texts)]
    memory.save_message(f"s{number // SESSION}", role="user", content=text, user_id=user)


def _go_on(crowd: Crowd, saver: Saver, place: int) -> None:
    try:
        crowd.barrier.wait()
        until = time.perf_counter() + crowd.seconds
        while time.perf_counter() < until:
            saver()
            crowd.counts[place] += 1
        crowd.barrier.wait()
    except BaseException:
        _give_up()


def _give_up() -> None:
    traceback.print_exc()
    os.killpg(0, 9)


def _cores() -> tuple[float, float]:
    """Return the seconds all cores have worked, and waited for the disk, since the machine started."""
    with Path("/proc/stat").open(encoding="ascii") as file:
        user, nice, system, _, waited, irq, soft, stolen, *_ = map(int, file.readline().split()[1:])
    tick = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + soft + stolen) / tick, waited / tick
