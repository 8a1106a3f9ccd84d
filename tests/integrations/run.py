"""A program: the adapters in their frameworks, each group of `groups.toml` in an environment of its own.

For each group it makes ``.venv/integrations/GROUP`` and runs there what is in ``with_GROUP``, the promises,
the blocks of the documentation and the frameworks' own suites. A group that cannot be installed in time is
left out with a line that says so. Two groups go on at once, where there are two cores; what one has said
comes under its name when it is done. It ends with 1 where a test failed.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENVIRONMENTS = ROOT / ".venv" / "integrations"
ALWAYS = ("pytest", "pytest-timeout", "hypothesis")
OURS = ("api", "client", "embedded-postgres")
AT_ONCE = 2  # each has a framework, a model and PostgreSQL in memory


def installed(name: str, extras: Sequence[str], packages: Sequence[str], seconds: float) -> Path:
    """Return the interpreter of a group's environment."""
    folder = ENVIRONMENTS / name
    python, ready = folder / "bin" / "python", folder / ".ready"
    asked = [*ALWAYS, *packages, "--editable", f"{ROOT}[{','.join((*OURS, *extras))}]"]
    state = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + repr(asked).encode()).hexdigest()
    if ready.is_file() and ready.read_text() == state:
        return python
    uv = [sys.executable, "-m", "uv", "--quiet"]  # makes seven environments in the time pip takes for two
    subprocess.run([*uv, "venv", "--seed", "--clear", "--python", sys.executable, folder], check=True)
    subprocess.run([*uv, "pip", "install", "--python", python, *asked], check=True, timeout=seconds)
    ready.write_text(state)
    return python


def run(name: str, extras: Sequence[str], packages: Sequence[str], seconds: float) -> tuple[bool, str]:
    """Run what there is for a group; return whether all of it passed, and what it said."""
    started = time.monotonic()
    try:
        python = installed(name, extras, packages, seconds)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        again = f"make test-integrations GROUPS={name}"
        return True, f"SKIPPED {name}: {type(error).__name__}; to try again: {again}"
    ready = time.monotonic()
    tests = [f"tests/integrations/with_{name}", "tests/integrations/test_promises.py"]
    pages = ["tests/acceptance/test_docs.py", "-k", f"integrations and ({' or '.join(extras)})"]
    # What a framework leaves open when it is done is not ours to close.
    theirs = "ignore::pytest.PytestUnraisableExceptionWarning"
    plain = [python, "-m", "pytest", "-p", "no:asyncio", "--quiet", "-W", theirs]
    programs = [[*plain, *tests], [*plain, *pages], [python, "tests/integrations/suites.py"]]
    told = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = [subprocess.run(program, cwd=ROOT, check=False, **told) for program in programs]
    ok = not any(one.returncode for one in done)
    took = f"installed in {ready - started:.0f} s, run in {time.monotonic() - ready:.0f} s"
    return ok, "".join([f"== {name} {'passed' if ok else 'FAILED'}: {took}\n", *(one.stdout for one in done)])


def main() -> int:
    groups = tomllib.loads((HERE / "groups.toml").read_text("utf-8"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(groups)}; by default all")
    parser.add_argument("--seconds", type=float, default=3_600, help="that installing a group may take")
    told = parser.parse_args()
    if unknown := [name for name in told.groups if name not in groups]:
        parser.error(f"no group is called {', '.join(unknown)}; there are {', '.join(groups)}")
    chosen = {name: groups[name] for name in told.groups or groups}
    with ThreadPoolExecutor(min(AT_ONCE, os.cpu_count() or 1)) as pool:
        running = [
            pool.submit(run, name, group["extras"], group.get("packages", ()), told.seconds)
            for name, group in chosen.items()
        ]
        passed = []
        for one in as_completed(running):
            ok, said = one.result()
            passed.append(ok)
            print(said, flush=True)
    return int(not all(passed))


if __name__ == "__main__":
    sys.exit(main())
