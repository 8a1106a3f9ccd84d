"""Commands as typer wants them: their parameters with what ``options.toml`` says of each."""

import tomllib
from collections.abc import Callable
from functools import cache, wraps
from importlib.resources import files
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_origin

import typer

__all__ = ["described"]


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
