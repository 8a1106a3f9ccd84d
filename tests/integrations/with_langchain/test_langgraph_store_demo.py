"""The example runs, and each user is answered from their own notes."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("langgraph.graph")

DEMO = Path(__file__).parents[3] / "examples" / "langgraph_store_demo.py"


def test_the_example_answers_from_the_notes_of_who_asks(capsys):
    runpy.run_path(str(DEMO), run_name="__main__")
    told = capsys.readouterr().out.splitlines()
    assert "ana: What is the code of the blue door? -> The blue door's code is 7341." in told
    assert "ana: 打印机在几楼？ -> 打印机在三楼，常卡纸。" in told
    assert "ana-b: What is the code of the blue door? -> The blue door's code is 9999." in told
    assert "bo: 打印机在几楼？ -> nothing noted" in told
    assert told[-2:] == ["forgotten: 2", 'left: ["The blue door\'s code is 9999."]']
