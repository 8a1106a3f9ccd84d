"""The command line: `jiyi COMMAND --help` explains each."""

import gc
import io
import sys
import tomllib
from collections.abc import Callable, Iterable
from functools import cache, wraps
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

import typer
from typer.core import TyperGroup

from jiyi.errors import JiyiError, MissingExtra


@cache
def _option_texts() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "options.toml").read_text("utf-8"))


class _Commands(TyperGroup):
    """Imports only the command that is used, so that clients of `jiyi mcp` do not wait for the others."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [name for name, entry in _option_texts().items() if "run" in entry]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        module, _, name = _option_texts().get(cmd_name, {}).get("run", "").partition(":")
        if not name:
            return None
        command = getattr(import_module(f"jiyi.cli.{module}"), name)
        if isinstance(command, typer.Typer):  # a group of commands
            group = typer.main.get_group(command)
            group.name = cmd_name
            return group
        single = typer.Typer(add_completion=False)
        single.command(name=cmd_name)(declare_options(command, cmd_name))
        return typer.main.get_command(single)


def declare_options(command: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a command with the arguments and options that options.toml declares, arguments first."""
    texts = _option_texts().get(name, {})
    arguments, options = texts.get("arguments", {}), _option_texts()["shared"] | texts.get("options", {})
    parameters = signature(command).parameters
    declared = [_declare(parameters[each], typer.Argument, text) for each, text in arguments.items()]
    declared += [
        each if get_origin(each.annotation) is Annotated else _declare(each, typer.Option, options[each.name])
        for each in parameters.values()
        if each.name not in arguments
    ]

    @wraps(command)
    def run(**given: Any) -> None:
        command(**given)

    set_parameters(run, declared)
    run.__annotations__ = {each.name: each.annotation for each in declared}
    return run


def set_parameters(command: Callable[..., Any], parameters: Iterable[Parameter]) -> None:
    """Set the parameters that Typer reads from a command, as keywords."""
    keyword_only = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters]
    command.__signature__ = Signature(keyword_only)  # type: ignore[attr-defined]


def _declare(parameter: Parameter, kind: Callable[..., Any], text: str | dict[str, Any]) -> Parameter:
    details = {"help": text} if isinstance(text, str) else dict(text)
    names = details.pop("names", ["--" + parameter.name.replace("_", "-")] * (parameter.annotation is bool))
    return parameter.replace(annotation=Annotated[(parameter.annotation, kind(*names, **details))])


app = typer.Typer(
    name="jiyi",
    cls=_Commands,
    help="jiyi (记忆): memory for LLM agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"jiyi {version('jiyi')}")
        raise typer.Exit


_Version = typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version.")


@app.callback()
def _root(ver: Annotated[bool, _Version] = False) -> None:
    pass


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


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Chinese shows "?", not a traceback
    try:
        app()
    except OSError as error:  # of standard output; typer itself ends a closed pipe
        sys.exit(f"error: the output cannot be written: {error.strerror}")
