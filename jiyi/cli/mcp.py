"""`jiyi mcp`: the memory as tools for Claude Code, Cursor and other clients."""

import gc
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from jiyi.errors import JiyiError, MissingExtra

__all__ = ["Compat", "mcp"]


class Compat(StrEnum):
    """Whose tools to offer."""

    server_memory = "server-memory"


def mcp(
    db: Annotated[
        str | None,
        typer.Option(
            "--db",
            envvar="JIYI_DB",
            metavar="FILE|URL",
            show_default="JIYI_DATABASE_URL, or ~/.jiyi/memory.db",
            show_envvar=False,
            help="The database: a file, or postgresql://…; also JIYI_DB.",
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", help="Whose memory; by default the only user's, or me in a new one."),
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Only this agent's part of it.")] = None,
    compat: Annotated[
        Compat | None, typer.Option(help="Offer the tools of the official memory server instead.")
    ] = None,
    graph: Annotated[
        Path | None,
        typer.Option(
            "--import",
            envvar="MEMORY_FILE_PATH",
            show_envvar=False,
            metavar="FILE",
            help="With --compat: a memory.jsonl to bring in, once; also MEMORY_FILE_PATH.",
        ),
    ] = None,
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
