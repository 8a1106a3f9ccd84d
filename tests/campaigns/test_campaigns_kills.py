"""A few kills of `kills.py`; it does the same for as long as it is told."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("kills.py")


@pytest.mark.slow
@pytest.mark.parametrize(("db", "kills"), [("sqlite", 40), ("postgres", 20)])
def test_nothing_acknowledged_is_lost_and_nothing_half_done(db, kills):
    command = [sys.executable, str(PROGRAM), "--db", db, "--kills", str(kills), "--minutes", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    assert done.stdout, done.stderr[-2_000:]
    figures = json.loads(done.stdout)
    assert (figures["faults"], figures["kills"]) == ([], kills)
    assert figures["acknowledged"] > kills / 4
    assert sum(figures["in the middle of"].values()) > kills / 8, "it was killed at work"
    assert figures["of the server, too"] == (0 if db == "sqlite" else kills // 10)
