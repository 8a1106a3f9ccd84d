"""The command line: `jiyi COMMAND --help` explains each."""

import io
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from jiyi.cli.described import described

__all__ = ["app", "main"]

_COMMANDS = {  # in the order of the help: where each is; it is loaded when it is used
    "demo": "demo:demo",
    "import": "transfer:import_",
    "search": "search:search",
    "context": "search:context",
    "show": "records:show",
    "stats": "records:stats",
    "doctor": "doctor:doctor",
    "tasks": "records:list_tasks",
    "episodes": "records:list_episodes",
    "knowledge": "records:list_knowledge",
    "facts": "records:list_facts",
    "forget": "life:forget",
    "restore": "life:restore",
    "pin": "life:pin",
    "maintain": "life:maintain",
    "monitor": "monitor:monitor",
    "export": "transfer:export",
    "evaluate": "evaluate:evaluate_files",
    "chat": "chat:chat",
    "copy": "transfer:copy",
    "repair": "transfer:repair",
    "reembed": "transfer:reembed",
    "model": "model:model",
    "migrate": "database:migrate",
    "mcp": "mcp:mcp",
    "serve-db": "database:serve_db",
    "serve": "server:serve",
    "keys": "server:keys",
}


class _Commands(TyperGroup):
    """Loads the one command that is used: a client that starts `jiyi mcp` does not wait for the others."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        found = getattr(import_module(f"jiyi.cli.{module}"), name)
        if isinstance(found, typer.Typer):  # commands of its own
            group = typer.main.get_group(found)
            group.name = cmd_name
            return group
        alone = typer.Typer(add_completion=False)
        alone.command(name=cmd_name)(described(found, cmd_name))
        return typer.main.get_command(alone)


app = typer.Typer(
    name="jiyi",
    cls=_Commands,
    help="jiyi (记忆): memory for LLM agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"jiyi {version('jiyi')}")
        raise typer.Exit


@app.callback()
def _root(
    ver: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Chinese shows "?", not a traceback
    app()
