"""What can be known here of other systems: nothing of POSIX is needed to import, or used unguarded."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tables import literals, read_tables

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "jiyi").rglob("*.py"))

MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
TABLES = read_tables(__file__)
NAMES = {
    module: set(" ".join(TABLES[f"only POSIX has them in {module}"]).split())
    for module in ("os", "signal", "socket", "time")
}
PLACES = ("/tmp/", "/var/", "/dev/", "/proc/", "/etc/")

# Run in a fresh interpreter that has none of these modules; standard modules that need one are loaded before.
_PROBE = """
import importlib, json, pkgutil, subprocess, sys, asyncio, tempfile, zipfile, logging.handlers
from importlib.abc import MetaPathFinder

class Without(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

from contextlib import suppress
with suppress(ImportError):
    import mcp.server.stdio  # goes by the name of the platform, which is still this one
MISSING = set(sys.argv[1].split())
for name in MISSING:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Without())
import jiyi
done, failed = 0, {}
for module in pkgutil.walk_packages(jiyi.__path__, "jiyi."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
        done += 1
    except jiyi.errors.MissingExtra as error:
        failed[module.name] = error.__cause__.name
    except ImportError as error:
        failed[module.name] = error.name
print(json.dumps({"done": done, "failed": failed}))
"""
EXTRAS = {
    "agents", "anthropic", "chromadb", "claude_agent_sdk", "google", "langchain", "langchain_core",
    "langgraph", "llama_index", "openai", "opentelemetry", "psycopg", "psycopg_pool", "pydantic_ai",
    "sentence_transformers", "strands",
}  # fmt: skip


@pytest.mark.slow
def test_every_module_is_imported_without_the_modules_of_posix():
    # `posix` is the interpreter's own here and cannot be taken away.
    words = " ".join(sorted(MODULES - {"posix"}))
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, words], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load(done.stdout)
    files = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in (ROOT / "jiyi").rglob("*.py")]
    reached = [n for n in files if not f"{n}.".startswith(tuple(f"{one}." for one in found["failed"]))]
    assert found["done"] == len(reached) - 2  # jiyi itself and jiyi.__main__
    missing = {name: why for name, why in found["failed"].items() if str(why).partition(".")[0] not in EXTRAS}
    assert missing == {}


def unguarded(tree: ast.AST) -> Iterator[str]:
    """Yield what only POSIX has and is reached on Windows; a look at sys.platform guards what follows it."""
    for name, value in ast.iter_fields(tree):
        if isinstance(value, ast.AST):
            yield from _of(value)
        elif isinstance(value, list):
            for node in value:
                if not isinstance(node, ast.AST):
                    continue
                yield from _of(node)
                if name in ("body", "orelse", "finalbody") and _ends_elsewhere(node):
                    break


def _of(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.If | ast.IfExp) and "sys.platform" in ast.unparse(node.test):
        return  # both ways were thought of
    if isinstance(node, ast.Try) and "ImportError" in [ast.unparse(h.type) for h in node.handlers if h.type]:
        return
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
        yield from (f"{node.lineno}: {name}" for name in names if name.partition(".")[0] in MODULES)
        if isinstance(node, ast.ImportFrom):
            known = NAMES.get(node.module or "", set())
            yield from (f"{node.lineno}: {one.name}" for one in node.names if one.name in known)
    if isinstance(node, ast.Attribute) and node.attr in NAMES.get(ast.unparse(node.value), ()):
        yield f"{node.lineno}: {ast.unparse(node)}"
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(PLACES):
        yield f"{node.lineno}: {node.value}"
    yield from unguarded(node)


def _ends_elsewhere(node: ast.AST) -> bool:
    """Say whether nothing that stands after a statement is reached on Windows."""
    if not isinstance(node, ast.If) or ast.unparse(node.test) != "sys.platform == 'win32'":
        return False
    return isinstance(node.body[-1], ast.Raise | ast.Return)


@pytest.mark.parametrize(("code", "found"), literals(TABLES["the check sees what is unguarded"]))
def test_the_check_sees_what_is_unguarded(code, found):
    assert list(unguarded(ast.parse(code))) == found


@pytest.mark.slow
def test_nothing_of_posix_is_used_unguarded():
    found = {named(file): list(unguarded(tree(file))) for file in FILES}
    assert {name: uses for name, uses in found.items() if uses} == {}


@pytest.mark.slow
def test_texts_are_read_and_written_in_utf_8():
    """Without a name of its own Windows takes the encoding of the country."""
    enough = {"read_text": 1, "write_text": 2}
    assert [
        f"{named(file)}:{node.lineno}: {node.func.attr}"
        for file in FILES
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and len(node.args) + len(node.keywords) < enough.get(node.func.attr, 0)
    ] == []


def named(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"), named(file))


def test_the_matrix_for_other_systems_can_be_read():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))["jobs"]
    systems = {system for job in jobs.values() for system in job["strategy"]["matrix"]["os"]}
    assert {name.partition("-")[0] for name in systems} == {"ubuntu", "macos", "windows"}
    assert any(name.endswith("-arm") for name in systems)
    for job in jobs.values():
        assert job["runs-on"] == "${{ matrix.os }}"
        assert all({"uses", "run"} & set(step) for step in job["steps"])
