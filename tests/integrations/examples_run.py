"""The examples of the documentation, run as programs."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def printed_by(example: str) -> str:
    """Run an example in a process of its own and return what it printed."""
    return subprocess.check_output([sys.executable, EXAMPLES / example], text=True, timeout=200)
