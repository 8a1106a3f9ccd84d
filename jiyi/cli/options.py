"""What the commands share: options, opening a memory, and errors told briefly."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from jiyi.errors import JiyiError, ScopeMissing, StorageError
from jiyi.manager import MemoryManager
from jiyi.settings import load_settings
from jiyi.wiring import open_memory, users_of

__all__ = [
    "Db",
    "Json",
    "User",
    "fail",
    "opened",
    "parse_moment",
    "print_json",
    "progress_bar",
    "stderr",
    "stdout",
    "told_briefly",
]

stdout = Console(highlight=False, soft_wrap=False)
stderr = Console(stderr=True, highlight=False)

Db = Annotated[Path, typer.Option("--db", envvar="JIYI_DB", help="The database file.")]
User = Annotated[str | None, typer.Option("--user", help="Whose memory; the only user's by default.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else on standard output.")]


@contextmanager
def opened(db: Path, user: str | None, *, create: bool = False, **settings: Any) -> Iterator[MemoryManager]:
    """Open the memory of one user; every `JiyiError` inside ends the command with its message.

    The user is the one named, else the settings' one, else the only one in the file.
    """
    with told_briefly():
        if not create and not db.exists():
            raise StorageError(f"there is no database {db}; make one: jiyi import FILE --db {db} --user NAME")
        who = user or load_settings().user_id or (_only_user(db) if db.exists() else None)
        if who is None:
            raise ScopeMissing("whose memory? Pass --user NAME or set JIYI_USER_ID")
        with open_memory(db, user_id=who, **settings) as memory:
            yield memory


@contextmanager
def told_briefly() -> Iterator[None]:
    """Turn a `JiyiError` into one line on standard error and exit code 1."""
    try:
        yield
    except JiyiError as error:
        fail(str(error))


def fail(message: str) -> None:
    """Print an error and end the command with exit code 1."""
    stderr.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)
    raise typer.Exit(1)


def print_json(value: Any) -> None:
    """Print a value as JSON, readable and without colours; text that is no Unicode is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=_plain)
    typer.echo(text.encode("utf-8", "backslashreplace").decode())


def parse_moment(text: str | None, name: str) -> datetime | None:
    """Read an ISO 8601 date or time; without a zone it is local time."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise typer.BadParameter(f"--{name} {text!r} is not an ISO 8601 date such as 2026-03-02") from None


def progress_bar(*, quiet: bool = False) -> Progress:
    """Return a progress bar on standard error; ``quiet`` shows none."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=stderr,
        disable=quiet,
    )


def _only_user(db: Path) -> str | None:
    users = users_of(db)
    return users[0] if len(users) == 1 else None


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")
