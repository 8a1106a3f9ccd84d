"""The command line: `jiyi COMMAND --help` explains each."""

import io
import sys
import tomllib
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_origin

import typer
from typer.core import TyperGroup

__all__ = ["app", "described", "main"]


class _Commands(TyperGroup):
    """Loads the one command that is used: a client that starts `jiyi mcp` does not wait for the others."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [name for name, said in _texts().items() if "run" in said]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        module, _, name = _texts().get(cmd_name, {}).get("run", "").partition(":")
        if not name:
            return None
        found = getattr(import_module(f"jiyi.cli.{module}"), name)
        if isinstance(found, typer.Typer):  # commands of its own
            group = typer.main.get_group(found)
            group.name = cmd_name
            return group
        alone = typer.Typer(add_completion=False)
        alone.command(name=cmd_name)(described(found, cmd_name))
        return typer.main.get_command(alone)


def described(command: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a command with its arguments and options declared, arguments first."""
    texts = _texts().get(name, {})
    arguments, options = texts.get("arguments", {}), _texts()["shared"] | texts.get("options", {})
    parameters = signature(command).parameters
    declared = [_declared(parameters[one], typer.Argument, arguments[one]) for one in arguments]
    declared += [
        one if get_origin(one.annotation) is Annotated else _declared(one, typer.Option, options[one.name])
        for one in parameters.values()
        if one.name not in arguments
    ]

    @wraps(command)
    def run(**given: Any) -> None:
        command(**given)

    ordered = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in declared]
    run.__signature__ = Signature(ordered)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in declared}
    return run


def _declared(parameter: Parameter, of: Callable[..., Any], text: str | dict[str, Any]) -> Parameter:
    said = {"help": text} if isinstance(text, str) else dict(text)
    names = said.pop("names", ["--" + parameter.name.replace("_", "-")] * (parameter.annotation is bool))
    return parameter.replace(annotation=Annotated[(parameter.annotation, of(*names, **said))])


@cache
def _texts() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "options.toml").read_text("utf-8"))


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
