"""`jiyi mcp`: the memory of one user over a pipe.

Clients give up on slow servers, so the handshake and the list of tools are answered before the memory is
opened in a thread; the first call waits for it.
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

_DEFAULT_FILE = Path("~/.jiyi/memory.db")  # whatever folder the client starts the server in
_DEFAULT_USER = "me"
_IMPORTS = "server-memory"  # namespace of the items that mark imported files
_LOG = logging.getLogger("jiyi.mcp")
_OPEN_DELAY = 0.3  # seconds after the list of tools, to answer the next requests first


class _SafeFormatter(logging.Formatter):
    """Makes log lines safe to show: anyone may have chosen the names in them."""

    def format(self, record: logging.LogRecord) -> str:
        return safe(super().format(record))


def serve_pipe(
    db: str | None, user: str | None, agent: str | None, *, compat: str = "", graph: Path | None = None
) -> None:
    """Serve a memory by standard input and output until the client closes them.

    Args:
        db: a file or URL; by default the setting, else ``~/.jiyi/memory.db``.
        user: by default the setting, else the only user there, else "me".
        agent: only the records of this agent.
        compat: "server-memory" for the tools of the official memory server.
        graph: a file of that server to import.

    Raises:
        SettingsError: a setting is unusable.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_SafeFormatter("jiyi mcp: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    _LOG.setLevel(logging.INFO)
    settings = load_settings(user_id=user, agent_id=agent)
    host = _LocalHost(db=db, settings=settings, graph=graph, user=settings.user_id)
    server = make_server(host, language_of(settings.language), compat=compat)
    try:
        anyio.run(_serve, server, host)
    finally:
        host.close()


async def _serve(server: Any, host: "_LocalHost") -> None:
    async def open_after_tool_list(ctx: Any, call_next: Any) -> Any:
        answer = await call_next(ctx)
        if ctx.method == "tools/list":
            host.start_opening()
        return answer

    server.middleware.append(open_after_tool_list)
    protocol = server._lowlevel_server
    async with stdio_server() as (read, write):
        await protocol.run(read, write, protocol.create_initialization_options())


def language_of(setting: Literal["auto", "zh", "en"]) -> Literal["zh", "en"]:
    """Return the language of descriptions: the setting, else that of the locale."""
    if setting != "auto":
        return setting
    names = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return "zh" if next(filter(None, names), "").lower().startswith("zh") else "en"


@dataclass(slots=True)
class _LocalHost:
    """A memory of one user on this machine, opened on first access."""

    db: str | None
    settings: Settings
    graph: Path | None
    user: str | None
    _memory: "MemoryManager | None" = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _started: bool = False

    @property
    def memory(self) -> "MemoryManager":
        with self._lock:
            if self._memory is None:
                self._memory = self._open()
            return self._memory

    def caller(self, request: Any) -> Caller:  # noqa: ARG002 - a pipe has one caller
        assert self.memory, "opening it sets the user"
        return Caller(user_id=str(self.user), agent_id=self.settings.agent_id)

    def forget_context(self) -> AbstractContextManager[None]:
        return nullcontext()

    def restore_hint(self, at: datetime) -> str:
        db = "" if self.db is None else f" --db {shlex.quote(self.db)}"
        return f"jiyi restore --at {at.isoformat()}{db} --user {shlex.quote(str(self.user))}"

    def start_opening(self) -> None:
        """Open the memory in a thread, once."""
        if not self._started:
            self._started = True
            timer = threading.Timer(_OPEN_DELAY, self._warm_up)
            timer.daemon = True
            timer.start()

    def close(self) -> None:
        with self._lock:
            if self._memory is not None:
                self._memory.close()

    def _warm_up(self) -> None:
        try:
            self.memory.counter.count_text("ready")  # also loads the vocabulary
        except JiyiError as error:  # the first call reports it to the client
            _LOG.warning("%s", error)

    def _open(self) -> "MemoryManager":
        from jiyi.databases import database_exists, list_users
        from jiyi.wiring import open as open_memory

        place = self._place()
        users = list_users(place) if database_exists(place) else []
        if self.user is None and len(users) > 1:
            names = ", ".join(users[:10])
            raise ScopeMissing(f"{place} has several users: start jiyi mcp with --user, such as {names}")
        self.user = self.user or (users[0] if users else _DEFAULT_USER)
        memory = open_memory(place, user_id=self.user, agent_id=self.settings.agent_id)
        _LOG.info("the memory of %s in %s is open", self.user, place)
        if self.graph is not None:
            self._import_graph(memory, self.graph)
        return memory

    def _place(self) -> "Place":
        from jiyi.storage.place import locate

        if self.db is None and (url := self.settings.database_url):
            return locate(url.get_secret_value())
        if self.db is None:
            file = _DEFAULT_FILE.expanduser()
            file.parent.mkdir(parents=True, exist_ok=True)
            self.db = str(file)
        return locate(self.db)

    def _import_graph(self, memory: "MemoryManager", file: Path) -> None:
        """Import a file of the official server once, so that what was deleted since does not come back."""
        try:
            mark = f"server-memory-{sha256(file.read_bytes()).hexdigest()[:32]}"
            if memory.get_item(_IMPORTS, mark) is not None:
                return
            with suppress(NotFound):  # older databases have a message as the mark
                memory.get(mark)
                return
            receipt = memory.import_(file)
        except (JiyiError, OSError) as error:
            _LOG.warning("%s was not imported: %s", file, error)
            return
        for rejection in receipt.rejected:
            _LOG.warning("%s: %s", rejection.where, rejection.reason)
        summary = f"{file.name}: {receipt.added} new facts, {len(receipt.rejected)} bad lines"
        memory.put_item(_IMPORTS, mark, {"imported": summary}, text="")  # no search or window finds it
        _LOG.info("%s", summary)
