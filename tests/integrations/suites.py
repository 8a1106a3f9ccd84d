"""A program: other projects' own tests, with our classes in place of theirs.

Their sources come by pip into a cache folder, at the versions that are installed; nothing of them is kept
here. It prints a table and ends with 1 where a case fails that is not left out by `left_out.toml`. What
cannot be downloaded is skipped with a line that says so.
"""

import os
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True, kw_only=True)
class Suite:
    package: str  # whose source distribution has the tests
    module: str  # that is installed where they can be run
    tests: list[str]
    plugin: str  # puts our class in place of theirs
    options: list[str] = field(default_factory=list)  # of pytest
    part: str = ""  # of the package's tests, where several suites are made of them

    @property
    def name(self) -> str:
        """By which it is known here and in `left_out.toml`."""
        return f"{self.package} {self.part}".strip()


SUITES = [Suite(**told) for told in tomllib.loads((HERE / "suites.toml").read_text("utf-8"))["suites"]]


def source(package: str, cache: Path) -> Path:
    """Return the folder of a package's sources, downloading them where they are not in the cache."""
    name = f"{package.replace('-', '_')}-{version(package)}"
    if not (cache / name).is_dir():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*pip, "--dest", cache, f"{package}=={version(package)}"], check=True)
        with tarfile.open(cache / f"{name}.tar.gz") as archive:
            archive.extractall(cache, filter="data")
    return cache / name


def run(suite: Suite, left_out: Mapping[str, str], cache: Path) -> dict[str, int]:
    """Run a suite and return how many of its cases passed, were left out, and failed."""
    with TemporaryDirectory() as folder:
        told = Path(folder) / "told.xml"
        plain = ["-oaddopts=", "-oasyncio_mode=auto", "-pno:cacheprovider", "--quiet", "--tb=short"]
        out = [f"--deselect={case}" for case in left_out]
        pytest = [sys.executable, "-m", "pytest", "-p", suite.plugin, *plain, *out, *suite.options]
        subprocess.run(
            [*pytest, f"--junitxml={told}", *suite.tests],
            cwd=source(suite.package, cache),
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}"},
            check=False,
        )
        found = ElementTree.parse(told).getroot().find("testsuite")
        counts = {name: int(found.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    failed = counts["failures"] + counts["errors"]
    return {
        "cases": counts["tests"] + len(left_out),
        "passed": counts["tests"] - failed - counts["skipped"],
        "left out": len(left_out) + counts["skipped"],
        "failed": failed,
    }


def main() -> int:
    cache = Path(os.environ.get("SUITES_CACHE", ROOT / ".venv" / "suites"))
    cache.mkdir(parents=True, exist_ok=True)
    reasons = tomllib.loads((HERE / "left_out.toml").read_text("utf-8"))
    here = [suite for suite in SUITES if find_spec(suite.module) is not None]
    results = {}
    for suite in here:
        try:
            results[suite.name] = run(suite, reasons.get(suite.name, {}), cache)
        except subprocess.CalledProcessError:
            print(f"SKIPPED {suite.name}: the sources of {suite.package} cannot be downloaded")
    print(f"{'suite':34} {'cases':>7} {'passed':>7} {'left out':>9} {'failed':>7}")
    for name, told in results.items():
        print(f"{name:34} {told['cases']:7} {told['passed']:7} {told['left out']:9} {told['failed']:7}")
    return 1 if any(told["failed"] or not told["passed"] for told in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
