"""The command line: `jiyi COMMAND --help` explains each."""

import io
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

from jiyi.cli.chat import chat
from jiyi.cli.database import migrate, serve_db
from jiyi.cli.demo import demo
from jiyi.cli.doctor import doctor
from jiyi.cli.evaluate import evaluate_files
from jiyi.cli.life import forget, maintain, pin, restore
from jiyi.cli.model import model
from jiyi.cli.monitor import monitor
from jiyi.cli.records import list_episodes, list_facts, list_knowledge, list_tasks, show, stats
from jiyi.cli.search import context, search
from jiyi.cli.server import keys, serve
from jiyi.cli.terminal import say
from jiyi.cli.transfer import copy, export, import_, reembed

__all__ = ["app", "main"]

app = typer.Typer(
    name="jiyi",
    help="jiyi (记忆): memory for LLM agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_COMMANDS: dict[str, Callable[..., None]] = {  # in the order of the help
    "demo": demo,
    "import": import_,
    "search": search,
    "context": context,
    "show": show,
    "stats": stats,
    "doctor": doctor,
    "tasks": list_tasks,
    "episodes": list_episodes,
    "knowledge": list_knowledge,
    "facts": list_facts,
    "forget": forget,
    "restore": restore,
    "pin": pin,
    "maintain": maintain,
    "monitor": monitor,
    "export": export,
    "evaluate": evaluate_files,
    "chat": chat,
    "copy": copy,
    "reembed": reembed,
    "model": model,
    "migrate": migrate,
    "serve-db": serve_db,
    "serve": serve,
}
for _name, _command in _COMMANDS.items():
    app.command(name=_name)(_command)
app.add_typer(keys, name="keys")


def _print_version(asked: bool) -> None:
    if asked:
        say(f"jiyi {version('jiyi')}")
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
