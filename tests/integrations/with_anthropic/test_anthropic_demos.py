"""The scripts of the SDKs, as somebody runs them."""

import pytest
from examples_run import printed_by

pytest.importorskip("anthropic")
pytest.importorskip("claude_agent_sdk")


SHOWN = {
    "anthropic_demo.py": ["the tool said: File created", "memories/doors.md", "it said: 7341."],
    "claude_agent_sdk_demo.py": ["as it was: True", "found: LISTEN", "after delete: None 0 found"],
}


@pytest.mark.slow
@pytest.mark.parametrize(("script", "shown"), SHOWN.items())
def test_a_script_shows_what_it_says(script, shown, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    printed = printed_by(script)
    assert all(text in printed for text in shown), printed
