"""Calls beside the caller: in time or not at all, never piling up, never keeping a process alive."""

import contextvars
import subprocess
import sys
import threading
import time

import pytest
from refusing import refused

from jiyi.time_limit import OutOfTime, run_within


class Owner:
    """Somebody whose calls are counted."""


def stuck(gate: threading.Event) -> str:
    assert gate.wait(30)
    return "late"


def test_an_answer_or_an_error_in_time_is_the_calls_own_in_the_callers_context():
    assert run_within(lambda: 5, 5, owner=Owner()) == 5
    with pytest.raises(ZeroDivisionError):
        run_within(lambda: 1 / 0, 5, owner=Owner())
    with pytest.raises(SystemExit):
        run_within(lambda: sys.exit(3), 5, owner=Owner())
    variable = contextvars.ContextVar("variable", default="outside")
    variable.set("inside")
    assert run_within(variable.get, 5, owner=Owner()) == "inside"


def test_late_calls_are_left_alone_and_then_no_more_are_begun():
    gate, owner, begun = threading.Event(), Owner(), []

    def call() -> str:
        begun.append(1)
        return stuck(gate)

    started = time.monotonic()
    for _ in range(2):
        refused(OutOfTime, r"longer than 0\.05 s", run_within, call, 0.05, owner=owner)
    for _ in range(5):
        refused(OutOfTime, "2 earlier calls have not come back", run_within, call, 30, owner=owner)
    assert time.monotonic() - started < 20
    assert len(begun) == 2
    assert run_within(lambda: "others are not held up", 5, owner=Owner())
    gate.set()
    deadline = time.monotonic() + 30
    while True:  # once they are back, there is room again
        try:
            assert run_within(lambda: "again", 5, owner=owner) == "again"
            break
        except OutOfTime:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_late_error_is_nobodys(recwarn):
    gate, owner = threading.Event(), Owner()

    def call() -> None:
        stuck(gate)
        raise ValueError("too late to matter")

    with pytest.raises(OutOfTime):
        run_within(call, 0.01, owner=owner)
    gate.set()
    time.sleep(0.1)
    assert not recwarn.list


RERANKER = """
from jiyi.rerank import rerank
class Stuck:
    name = "stuck"
    def score(self, query, texts): time.sleep(60)
assert "it gave no answer in time" in rerank(Stuck(), "q", ["a"], time_limit=0.1).note
"""
CALL = """
from jiyi.time_limit import *
try: run_within(lambda: time.sleep(60), 0.1, owner="x")
except OutOfTime: pass
else: raise AssertionError
"""


@pytest.mark.parametrize("code", [CALL, RERANKER], ids=["call", "reranker"])
def test_what_is_stuck_does_not_keep_the_process_alive(code):
    started = time.monotonic()
    command = [sys.executable, "-W", "error", "-c", f"import time\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - started < 30
