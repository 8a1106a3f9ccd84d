"""The demo: forty turns in a window of 4,000 tokens, and the answer of turn 2 in the last one."""

import runpy
from pathlib import Path

import pytest

from jiyi import wiring
from jiyi.settings import Settings
from jiyi.testing import HashEmbedder

DEMO = Path(__file__).parents[2] / "examples" / "agent_demo.py"


@pytest.mark.slow
def test_the_answer_of_turn_2_is_in_the_last_window(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(f"JIYI_{name.upper()}", raising=False)
    monkeypatch.setattr(wiring, "embedder_for", lambda settings: HashEmbedder())
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(DEMO), run_name="__main__")
    told = capsys.readouterr().out
    assert ended.value.code == 0, told
    assert "which is no language model" in told
    turns = [line for line in told.splitlines() if line.startswith("turn ")]
    assert len(turns) == 40
    assert all(" done: (scripted" in line for line in turns)
    assert all(int(line.split(":")[1].split()[0].replace(",", "")) <= 4_000 for line in turns)
    said = int(told.rpartition(" tokens were said")[0].rpartition("\n")[2].replace(",", ""))
    assert said > 2 * 4_000, "it could not all be in the window"
    evidence = told.partition("What turn 2 said stands in it:\n")[2].splitlines()
    assert evidence
    assert all("走 9443 端口" in line for line in evidence[:1])
