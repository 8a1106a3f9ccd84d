"""What the programs of this folder share: their options, a folder that costs no time, and how they end."""

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def asked(about: str | None, **defaults: Any) -> argparse.Namespace:
    """Read --minutes, --seed and what else there is: each of the type of its default, a list from several."""
    form = argparse.RawDescriptionHelpFormatter
    options = argparse.ArgumentParser(description=about, formatter_class=form)
    for name, default in ({"minutes": 1.0, "seed": 1} | defaults).items():
        if isinstance(default, bool):
            options.add_argument(f"--{name}", action="store_true")
        elif isinstance(default, list):
            options.add_argument(f"--{name}", action="append", default=default)
        else:
            options.add_argument(f"--{name}", type=type(default), default=default)
    return options.parse_args()


def folder_in_memory() -> "tempfile.TemporaryDirectory[str]":
    """Make a folder on a real file system whose syncs cost nothing, where there is one."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)


def told(figures: Mapping[str, Any]) -> int:
    """Print the figures; return the exit code, 1 where there are faults."""
    print(json.dumps(figures, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace").decode())
    return int(bool(figures["faults"]))
