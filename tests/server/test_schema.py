"""schemathesis against a server: every answer is one that the OpenAPI description names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_server_is_as_its_description_says(server, tmp_path):
    client = server.client("", user="ana", scopes=("read", "write", "forget", "admin"))
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"),
        *("-H", f"Authorization: {client.headers['authorization']}"),
        *("--phases", os.environ.get("JIYI_TEST_SCHEMA_PHASES", "examples,coverage")),
        *("--max-examples", os.environ.get("JIYI_TEST_SCHEMA_EXAMPLES", "1")),
        *("--exclude-checks", "positive_data_acceptance"),  # see schema_checks
        *("--generation-deterministic", "--continue-on-failure", "--no-color"),
    ]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "schema_checks", "PYTHONPATH": str(HERE)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[done.stdout.find("= FAILURES") :][:8_000] + done.stderr[-2_000:]
    paths = client.get("/openapi.json").json()["paths"]
    assert f"Tested: {sum(map(len, paths.values()))}" in done.stdout
