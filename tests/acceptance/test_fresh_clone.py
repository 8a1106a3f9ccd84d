"""From nothing: a clone of what is committed, `make demo`, and the commands it suggests."""

import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jiyi.embeddings import E5Embedder

ROOT = Path(__file__).parents[2]
_INSIDE = "FRESH_CLONE_TEST"  # set while the test runs, so that it does not run inside itself
_PROMISED = 60  # seconds the demo may take
_USUAL = 45  # milliseconds to embed a short question, on two cores that have nothing else to do: 30

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def run(*words: object, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command as in a new shell: no settings of ours, no virtual environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("JIYI_") and k != "VIRTUAL_ENV"}
    env = kept | {_INSIDE: "1", "PYTHONIOENCODING": "utf-8", "COLUMNS": "100"} | environ
    return subprocess.run(
        [str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A clone of the committed state in a new folder."""
    if os.environ.get(_INSIDE):
        pytest.skip("already running inside a fresh clone")
    for tool in ("git", "make"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    folder = tmp_path_factory.mktemp("fresh")
    top = run("git", "rev-parse", "--show-toplevel", cwd=ROOT)
    if top.returncode or Path(top.stdout.strip()) != ROOT:
        pytest.skip("these tests do not lie in a git checkout of the project")
    probe = run(
        sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, "iniconfig", cwd=folder
    )
    if probe.returncode:
        pytest.skip("no package index can be reached")
    cloned = run("git", "clone", "--quiet", "--no-local", ROOT, folder / "project", cwd=folder)
    assert cloned.returncode == 0, cloned.stderr
    return folder / "project"


@pytest.fixture(scope="module")
def demo(clone):
    """`make demo` where nothing is installed yet."""
    assert not (clone / ".venv").exists()
    return run("make", "demo", f"PYTHON={sys.executable}", cwd=clone)


def test_make_demo_runs_from_nothing_and_leaves_nothing_that_git_would_take(clone, demo):
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "Traceback" not in demo.stderr
    assert (clone / "demo.db").stat().st_size > 100_000
    for part in ("What is recalled", "The window", "One fact that changed", "One lesson learned"):
        assert part in demo.stdout
    assert (
        len(re.findall(r"^Answer in window: yes, place \d+ of what is recalled", demo.stdout, re.MULTILINE))
        == 3
    )
    assert run("git", "status", "--porcelain", cwd=clone).stdout == ""


def test_the_suggested_commands_work(clone, demo):
    _, _, suggested = demo.stdout.partition("ask it yourself:")
    assert suggested.count("jiyi ") == 3
    jiyi = clone / ".venv" / "bin" / "jiyi"
    found = run(jiyi, "search", "502", "--db", "demo.db", cwd=clone)
    assert (found.returncode, found.stderr) == (0, "")
    assert "502" in found.stdout
    session = "2026-03-22-weekly-wrap"
    window = run(jiyi, "context", session, "pay-gw 现在用哪个端口？", "--db", "demo.db", cwd=clone)
    assert (window.returncode, window.stderr) == (0, "")
    assert "9443" in window.stdout
    listed = run(jiyi, "show", "--db", "demo.db", cwd=clone)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert session in listed.stdout


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md"])
def test_the_readmes_show_the_report_of_a_window(clone, demo, readme):
    found = re.search(
        r"^\$ jiyi (context .*)\n((?:[╭│].*\n)+)", (ROOT / readme).read_text("utf-8"), re.MULTILINE
    )
    assert found
    shown = run(clone / ".venv" / "bin" / "jiyi", *shlex.split(found[1]), cwd=clone, COLUMNS="96")
    assert found[2] in shown.stdout, shown.stdout[-3000:]


def test_the_demo_takes_less_than_a_minute(demo):
    found = re.search(r"^(\d+) s\. The memory is in", demo.stdout, re.MULTILINE)
    assert found, demo.stdout[-500:]
    seconds, question = int(found[1]), milliseconds_a_question()
    if seconds >= _PROMISED and question > _USUAL:
        pytest.skip(f"{seconds} s, where embedding a question takes {question:.0f} ms: a slow machine")
    assert seconds < _PROMISED


def milliseconds_a_question() -> float:
    """Return how long this machine takes now for the smallest piece of what the demo mostly does."""
    embedder, times = E5Embedder(), []
    embedder.embed(["warm"], "query")
    for number in range(9):
        started = time.perf_counter()
        embedder.embed([f"nginx 又 502 了 {number}"], "query")
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times)
