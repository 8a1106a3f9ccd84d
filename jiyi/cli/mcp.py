"""`jiyi mcp`: the memory as tools for Claude Code, Cursor and other clients."""

import gc
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from jiyi.errors import JiyiError, MissingExtra

__all__ = ["mcp"]


def mcp(
    db: str | None = None,
    user: str | None = None,
    agent: str | None = None,
    compat: Literal["server-memory"] | None = None,
    graph: Path | None = None,
) -> None:
    """Serve the memory by MCP on standard input and output, for clients that start it themselves."""
    try:
        if find_spec("mcp") is None:
            raise MissingExtra("jiyi mcp needs the package mcp: pip install 'jiyi[mcp]'")
        gc.disable()  # while the SDK makes its hundreds of classes: clients wait for it
        from jiyi.mcp.stdio import serve_pipe

        gc.enable()
        gc.freeze()
        serve_pipe(db, user, agent, compat=compat or "", graph=graph if compat else None)
    except JiyiError as error:
        from jiyi.cli.terminal import fail

        fail(str(error))
