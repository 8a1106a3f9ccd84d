"""Programs that save, as their keeper sees them: what they were promised, what failed."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Savers", "saving"]

PROGRAM = Path(__file__).with_name("saver.py")
FEW_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Savers:
    """Running programs of saver.py.

    Attributes:
        saved: the ids that were acknowledged, in the order they were heard of.
        failed: lines about saves that were not.
        closed: how many programs ended as they should.
    """

    def __init__(self, url: str, names: tuple[str, ...], threads: int, count: int, **settings: float) -> None:
        self.saved: list[str] = []
        self.failed: list[str] = []
        self.closed = 0
        self.expected = len(names) * threads * count
        self._ready = threading.Semaphore(0)
        more = [f"{name}={value}" for name, value in settings.items()]
        self.programs = [
            subprocess.Popen(
                [sys.executable, str(PROGRAM), url, name, str(threads), str(count), *more],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **FEW_THREADS},
            )
            for name in names
        ]
        self._readers = [threading.Thread(target=self._hear, args=(program,)) for program in self.programs]

    def start(self) -> None:
        """Let all begin at one moment."""
        for reader in self._readers:
            reader.start()
        for _ in self.programs:
            assert self._ready.acquire(timeout=60), "a program did not open its memory"
        for program in self.programs:
            assert program.stdin is not None
            program.stdin.write("go\n")
            program.stdin.flush()

    def wait_for(self, count: int, *, seconds: float = 60) -> None:
        """Wait until so many saves were acknowledged."""
        until = time.monotonic() + seconds
        while len(self.saved) < count:
            assert time.monotonic() < until, f"{len(self.saved)} of {count} saves in {seconds} s"
            time.sleep(0.005)

    def kill(self, number: int) -> None:
        """Kill one of the programs, whatever it is at."""
        os.kill(self.programs[number].pid, signal.SIGKILL)

    def finish(self, *, seconds: float = 120) -> None:
        """Wait until all ended."""
        until = time.monotonic() + seconds
        for program in self.programs:
            program.wait(max(0.1, until - time.monotonic()))
        for reader in self._readers:
            reader.join(10)

    def end(self) -> None:
        """Leave no program running."""
        for program in self.programs:
            if program.poll() is None:
                program.kill()
            program.wait()
        for reader in self._readers:
            reader.join(10)
        for program in self.programs:
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.close()
            program.stdout.close()

    def _hear(self, program: "subprocess.Popen[str]") -> None:
        assert program.stdout is not None
        for line in program.stdout:
            match line.split():
                case ["ready"]:
                    self._ready.release()
                case ["saved", id_]:
                    self.saved.append(id_)
                case ["closed"]:
                    self.closed += 1
                case _:
                    self.failed.append(line.strip())


@contextmanager
def saving(
    url: str, names: tuple[str, ...], *, threads: int, count: int, **settings: float
) -> Iterator[Savers]:
    """Start programs and end them with the block."""
    savers = Savers(url, names, threads, count, **settings)
    try:
        savers.start()
        yield savers
    finally:
        savers.end()
