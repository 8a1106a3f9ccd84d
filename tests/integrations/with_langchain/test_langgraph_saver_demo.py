"""The example runs: a thread goes on after its memory was closed, and goes when it is told to."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("langgraph.graph")

DEMO = Path(__file__).parents[3] / "examples" / "langgraph_saver_demo.py"


def test_the_example_goes_on_where_it_stopped(capsys):
    runpy.run_path(str(DEMO), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        "asked: app-01 hangs. Restart it? 可以重启吗？",
        "yes: restarted",
        "before that: ['app-01 hangs.']",
        "checkpoints: 3",
        "after pruning: 1",
        "after deleting: 0",
    ]
