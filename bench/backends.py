"""Recall on SQLite and on a PostgreSQL server: ``python bench/backends.py URL FILE... --budget 1000``.

URL is a database for evaluations alone: it is filled and emptied, and bound to one embedder. Each
conversation is loaded into a memory on both with the same ids, and embedded once. Printed are the metrics
of both and what differs.
"""

import argparse
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import jiyi
from jiyi.embeddings import Embedder
from jiyi.evaluate import evaluate, load_dataset, open_sqlite
from jiyi.manager import MemoryManager


@contextmanager
def open_on_server(url: str, embedder: Embedder) -> Iterator[MemoryManager]:
    """Open the memory of a new user; nothing of it stays but the user's random name."""
    user_id = f"jiyi-evaluate-{secrets.token_hex(16)}"
    with jiyi.open(url, user_id=user_id, embedder=embedder, background=False) as memory:
        try:
            yield memory
        finally:
            memory.forget(everything=True, purge=True)


def main() -> None:
    """Print the figures of each file as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--budget", action="append", type=int, default=[])
    given = parser.parse_args()
    places = {"sqlite": open_sqlite, "postgresql": partial(open_on_server, given.url)}
    for file in given.files:
        told = [run.as_dict() for run in evaluate(load_dataset(file), open=places, budgets=given.budget).runs]
        shown = {run["backend"]: {**run["metrics"], **run["evidence_in_context"]} for run in told}
        one, other = shown.values()
        differs = [name for name in one if one[name] != other[name]]
        print(json.dumps({"file": file.name, **shown, "differs": differs}))


if __name__ == "__main__":
    main()
