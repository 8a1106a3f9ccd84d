"""schemathesis against a server: every answer is one that the OpenAPI description names.

    python tests/server/schemas.py [--minutes N] [--seed N]

Examples and coverage run once; fuzzing and stateful runs, which follow the description's links, take turns
until the time is over, with few cases of each operation a turn (see schemathesis.toml), so that every turn
reaches all of them.
Prints the cases of each operation and phase as JSON; exit code 1 on a failure, or where fuzzing did not
reach an operation.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PHASES = ("examples", "coverage", "fuzzing", "stateful")


def campaign(server: Any, folder: Path, *options: str) -> tuple[dict[str, dict[str, int]], str]:
    """Run schemathesis and return the cases of each operation by phase, and its failures, "" for none."""
    client = server.client("", user="ana", scopes=("read", "write", "forget", "admin"))
    counted = folder / "counted.json"
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml")),
        *("run", f"{server.url}/openapi.json"),
        *("-H", f"Authorization: {client.headers['authorization']}"),
        *("--exclude-checks", "positive_data_acceptance"),  # see schema_checks
        *("--continue-on-failure", "--no-color", *options),
    ]
    environment = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "schema_checks",
        "SCHEMA_CHECKS_COUNTED": str(counted),
        "PYTHONPATH": str(HERE),
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    seen = {f"{method.upper()} {path}": dict.fromkeys(PHASES, 0) for path, method in _operations(client)}
    for (label, phase), cases in json.loads(counted.read_text()):
        seen[label][phase] = cases
    failed = done.stdout[max(done.stdout.find("= FAILURES"), 0) :][:8_000] + done.stderr[-2_000:]
    return seen, failed if done.returncode else ""


def _operations(client: Any) -> list[tuple[str, str]]:
    paths = client.get("/openapi.json").json()["paths"]
    return [(path, method) for path, methods in paths.items() for method in methods]


def main() -> int:
    """Run it at length and print the figures."""
    sys.path[:0] = map(str, Path(__file__).parents[:2])
    from conftest import running

    from jiyi.testing import HashEmbedder

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=20)
    options.add_argument("--seed", type=int, default=1)
    asked = options.parse_args()
    given = {"--max-time": round(60 * asked.minutes), "--seed": asked.seed}
    settings: dict[str, Any] = {"server_requests_per_minute": 0, "embedder": HashEmbedder(64)}
    with tempfile.TemporaryDirectory() as name, running(Path(name) / "s.db", **settings) as server:
        seen, failed = campaign(server, Path(name), *(f"{key}={value}" for key, value in given.items()))
    for label, cases in seen.items():
        print(json.dumps({"operation": label, **cases}))
    missed = {phase: [label for label, cases in seen.items() if not cases[phase]] for phase in PHASES}
    print(json.dumps({"operations": len(seen), "missed": missed}))
    print(json.dumps({phase: sum(cases[phase] for cases in seen.values()) for phase in PHASES}))
    print(failed or "no failure")
    return bool(failed or missed["coverage"] or missed["fuzzing"])


if __name__ == "__main__":
    sys.exit(main())
