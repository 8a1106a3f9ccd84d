"""`jiyi mcp`: one user's memory at the other end of a pipe.

Clients give up on servers that are slow to start, so the handshake and the list of tools are answered
before the memory is opened: that is done in a thread, and the first call waits for it.
"""

import logging
import os
import shlex
import sys
import threading
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
from mcp.server.stdio import stdio_server

from jiyi.errors import JiyiError, NotFound, ScopeMissing
from jiyi.mcp.caller import Caller
from jiyi.mcp.server import make_server
from jiyi.settings import Settings, load_settings
from jiyi.telling import safe

if TYPE_CHECKING:  # loaded when the memory is opened, after the handshake
    from jiyi.manager import MemoryManager
    from jiyi.storage.place import Place

__all__ = ["language_of", "serve_pipe"]

_HOME = Path("~/.jiyi/memory.db")  # one place, whatever folder a client starts its servers in
_USER = "me"
_LOG = logging.getLogger("jiyi.mcp")
_PAUSE = 0.3  # seconds after the list of tools: what the client asks next comes first


class _Line(logging.Formatter):
    """Writes what was logged, safe to show: names in it come from anyone."""

    def format(self, record: logging.LogRecord) -> str:
        return safe(super().format(record))


def serve_pipe(
    db: str | None, user: str | None, agent: str | None, *, compat: str = "", graph: Path | None = None
) -> None:
    """Serve a memory by standard input and output until the client closes them.

    Args:
        db: a file or URL; else what the settings say, else ``~/.jiyi/memory.db``.
        user: whose memory; else what the settings say, else the only user there, else "me".
        agent: which agent's, all by default.
        compat: "server-memory" for the tools of the official memory server.
        graph: a file of that server to be imported.

    Raises:
        SettingsError: a setting is unusable.
    """
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(_Line("jiyi mcp: %(message)s"))
    logging.basicConfig(handlers=[lines], level=logging.WARNING)
    _LOG.setLevel(logging.INFO)
    settings = load_settings(user_id=user, agent_id=agent)
    local = _Local(db=db, settings=settings, graph=graph, user=settings.user_id)
    server = make_server(local, language_of(settings.language), compat=compat)
    try:
        anyio.run(_serve, server, local)
    finally:
        local.close()


async def _serve(server: Any, local: "_Local") -> None:
    async def begin_after(ctx: Any, call_next: Any) -> Any:
        answer = await call_next(ctx)
        if ctx.method == "tools/list":
            local.begin()
        return answer

    server.middleware.append(begin_after)
    low = server._lowlevel_server
    async with stdio_server() as (read, write):
        await low.run(read, write, low.create_initialization_options())


def language_of(setting: Literal["auto", "zh", "en"]) -> Literal["zh", "en"]:
    """Return the language of descriptions: the setting's, else that of this machine's locale."""
    if setting != "auto":
        return setting
    names = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return "zh" if next(filter(None, names), "").lower().startswith("zh") else "en"


@dataclass(slots=True)
class _Local:
    """A memory on this machine, of one user, opened when it is first asked for."""

    db: str | None
    settings: Settings
    graph: Path | None
    user: str | None
    _memory: "MemoryManager | None" = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _begun: bool = False

    @property
    def memory(self) -> "MemoryManager":
        with self._lock:
            if self._memory is None:
                self._memory = self._opened()
            return self._memory

    def caller(self, request: Any) -> Caller:  # noqa: ARG002 - a pipe has one other end
        """Return the one user."""
        assert self.memory, "it finds out who the user is"
        return Caller(user_id=str(self.user), agent_id=self.settings.agent_id)

    def forgetting(self) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return nullcontext()

    def restoring(self, at: datetime) -> str:
        """Return the command that brings back what was forgotten."""
        db = "" if self.db is None else f" --db {shlex.quote(self.db)}"
        return f"jiyi restore --at {at.isoformat()}{db} --user {shlex.quote(str(self.user))}"

    def begin(self) -> None:
        """Open the memory in a thread, unless that was begun."""
        if not self._begun:
            self._begun = True
            timer = threading.Timer(_PAUSE, self._prepare)
            timer.daemon = True
            timer.start()

    def close(self) -> None:
        """Let go of the memory."""
        with self._lock:
            if self._memory is not None:
                self._memory.close()

    def _prepare(self) -> None:
        try:
            self.memory.counter.count_text("ready")  # loads the vocabulary, too
        except JiyiError as error:  # the first call tells it to the client
            _LOG.warning("%s", error)

    def _opened(self) -> "MemoryManager":
        from jiyi.databases import database_exists, list_users
        from jiyi.wiring import open_memory

        place = self._place()
        there = list_users(place) if database_exists(place) else []
        if self.user is None and len(there) > 1:
            some = ", ".join(there[:10])
            raise ScopeMissing(f"{place} has several users: start jiyi mcp with --user, such as {some}")
        self.user = self.user or (there[0] if there else _USER)
        memory = open_memory(place, user_id=self.user, agent_id=self.settings.agent_id)
        _LOG.info("the memory of %s in %s is open", self.user, place)
        if self.graph is not None:
            self._import(memory, self.graph)
        return memory

    def _place(self) -> "Place":
        from jiyi.storage.place import locate

        url = self.settings.database_url
        if self.db is None and url is not None:
            return locate(url.get_secret_value())
        if self.db is None:
            file = _HOME.expanduser()
            file.parent.mkdir(parents=True, exist_ok=True)
            self.db = str(file)
        return locate(self.db)

    def _import(self, memory: "MemoryManager", file: Path) -> None:
        """Import a file of the official server once: what was deleted since does not come back."""
        try:
            mark = f"server-memory-{sha256(file.read_bytes()).hexdigest()[:32]}"
            with suppress(NotFound):
                memory.get(mark)
                return
            done = memory.import_(file)
        except (JiyiError, OSError) as error:
            _LOG.warning("%s was not imported: %s", file, error)
            return
        for bad in done.rejected:
            _LOG.warning("%s: %s", bad.where, bad.reason)
        told = f"{file.name}: {done.added} new facts, {len(done.rejected)} bad lines"
        memory.save_message("server-memory", role="system", content=told, id=mark)
        _LOG.info("%s", told)
