"""A stored text cannot stall everybody: no pattern needs more than linear time, whatever it reads."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("patterns_under_load.py")


@pytest.mark.slow
def test_no_pattern_takes_more_than_linear_time():
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["patterns"] > 200  # else the program no longer sees them
    assert not result["slow"], "\n".join(map(str, result["slow"]))
