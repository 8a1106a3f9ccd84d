"""The protocol's own suite against ``/mcp``, where Node 22 and the package are there.

npm install @modelcontextprotocol/conformance@0.2.0-alpha.11
JIYI_TEST_CONFORMANCE=node_modules/@modelcontextprotocol/conformance/dist/index.js
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

EXPECTED = Path(__file__).with_name("conformance.yml")


def node_version() -> int:
    node = shutil.which("node")
    if node is None:
        return 0
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return int(told.strip().removeprefix("v").partition(".")[0])


@pytest.mark.slow
@pytest.mark.skipif("JIYI_TEST_CONFORMANCE" not in os.environ, reason="JIYI_TEST_CONFORMANCE names no suite")
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_only_what_is_expected_fails(serve, version, tmp_path):
    if node_version() < 22:
        pytest.skip("the suite needs Node 22")
    lines = EXPECTED.read_text("utf-8").splitlines()
    expected = tmp_path / "expected.yml"
    expected.write_text("\n".join(line for line in lines if f"passes in {version}" not in line), "utf-8")
    with serve(user_id="ana") as server:  # the suite sends no key and names no user
        command = ["node", os.environ["JIYI_TEST_CONFORMANCE"], "server", "--url", f"{server.url}/mcp"]
        options = ["--suite", "all", "--spec-version", version, "--expected-failures", str(expected)]
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout[-3_000:]
