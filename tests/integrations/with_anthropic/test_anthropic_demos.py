"""The scripts of the SDKs, as somebody runs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("anthropic")
pytest.importorskip("claude_agent_sdk")

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("anthropic_demo.py", ["the tool said: File created", "memories/doors.md", "it said: 7341."]),
        ("claude_agent_sdk_demo.py", ["as it was: True", "found: LISTEN", "after delete: None 0 found"]),
    ],
)
def test_a_script_shows_what_it_says(script, shown, tmp_path):
    run = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert all(text in run.stdout for text in shown), run.stdout
