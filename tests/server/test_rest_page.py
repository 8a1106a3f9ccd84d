"""The page about the server: its curl lines are run as they stand, and print what it shows."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```sh\n(.*?)```(?:\n\n```text output\n(.*?)```)?", re.DOTALL)
AT = "http://127.0.0.1:8710"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("page", ["rest.md", "zh/rest.md"])
def test_the_page_says_what_happens(server, tmp_path, page):
    key = server.client("acme").headers["authorization"].removeprefix("Bearer ")
    blocks, before = BLOCK.findall((DOCS / page).read_text("utf-8")), ""
    assert len(blocks) > 4
    for commands, shown in blocks:
        whole = before + "echo ----; set -e\n" + commands
        command, env = ["bash", "-c", whole.replace(AT, server.url)], {"PATH": os.environ["PATH"]}
        told = subprocess.check_output(command, cwd=tmp_path, env=env | {"KEY": key}, text=True)
        printed = told.rpartition("----\n")[2]
        wanted = ".*".join(map(re.escape, shown.strip().split("...")))
        assert re.fullmatch(wanted or ".*", printed.strip(), re.DOTALL), printed
        before += "".join(line + "\n" for line in commands.splitlines() if line.startswith("export "))
