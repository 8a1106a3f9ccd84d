"""What the commands share: options, opening a memory, and errors as one line."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from jiyi.cli.terminal import fail, note, print_json
from jiyi.client import RemoteMemory
from jiyi.databases import database_exists, list_users
from jiyi.errors import JiyiError, NotFound, ScopeMissing, SettingsError, StorageError
from jiyi.manager import MemoryManager
from jiyi.settings import load_settings
from jiyi.storage.place import Place, locate
from jiyi.wiring import open_memory

__all__ = [
    "AGENT_DB",
    "Anywhere",
    "Db",
    "Shown",
    "brief_errors",
    "db_option",
    "note_pending",
    "on_memory",
    "opened",
    "parse_moment",
    "parse_place",
    "require_database",
    "telling",
]

AGENT_DB = Place(path=Path("agent.db"))
"""The default of `Db`; it gives way to the setting ``database_url``."""


def parse_place(given: str) -> Place:
    """Read where a database is; a bad one is a usage error."""
    try:
        return locate(given)
    except SettingsError as error:
        raise typer.BadParameter(str(error)) from None


def _place_named(given: str | Place) -> Place:
    """Return where ``--db`` points; without it, where the setting ``database_url`` does."""
    if not isinstance(given, Place):
        return parse_place(given)
    try:
        url = load_settings().database_url
        return given if url is None else locate(url.get_secret_value())
    except SettingsError:  # the command that needs the settings says what is wrong with them
        return given


def _memory_named(given: str | Place) -> Place:
    """Return what `_place_named` does; a memory may also be on a server."""
    return Place(url=str(given)) if _is_server(given) else _place_named(given)


def _is_server(given: str | Place | None) -> bool:
    return isinstance(given, str) and given.startswith(("https://", "http://"))


def _db(parser: Callable[[Any], Place], kinds: str) -> Any:
    return typer.Option(
        "--db",
        envvar="JIYI_DB",
        parser=parser,
        metavar="FILE|URL",
        show_default="JIYI_DATABASE_URL, or agent.db",
        show_envvar=False,
        help=f"The database: a file, {kinds}; also JIYI_DB.",
    )


Db = Annotated[Place, _db(_place_named, "or postgresql://…")]
Anywhere = Annotated[Place, _db(_memory_named, "postgresql://…, or https://… of jiyi serve")]
"""A database, or a memory on a server: of commands that only call verbs."""


@contextmanager
def opened(db: Place, user: str | None, *, create: bool = False, **settings: Any) -> Iterator[MemoryManager]:
    """Open the memory of one user; every `JiyiError` inside ends the command with its message.

    The user is the one named, else the settings' one, else the only one there.
    Nothing runs in the background: a command embeds when it says so, or not at all. A server knows
    whose key it is given, and its users are not asked for.
    """
    with brief_errors():
        if _is_server(db.url):
            with open_memory(db.url, user_id=user or load_settings().user_id) as memory:
                yield memory
            return
        if not create:
            require_database(db)
        there = list_users(db) if database_exists(db) else []
        who = user or load_settings().user_id or (there[0] if len(there) == 1 else None)
        if who is None:
            raise ScopeMissing(f"whose memory? Pass --user NAME or set JIYI_USER_ID{_named(there)}")
        if not create and who not in there:
            raise NotFound(f"{db} holds nothing of user {who!r}{_named(there)}")
        with open_memory(db, user_id=who, background=False, **settings) as memory:
            yield memory


Shown = tuple[Any, Callable[[], object]] | tuple[Any, Callable[[], object], bool]
"""What a command has to tell: what --json prints, what shows it to people, and whether it failed."""


def telling(command: Callable[..., Shown]) -> Callable[..., None]:
    """Make a command of a function that returns what it has to tell, with --json added to its options."""

    @wraps(command)
    def run(*, as_json: bool, **own: Any) -> None:
        given = own | {"as_json": as_json} if "as_json" in parameters else own
        with brief_errors():
            value, show, *failed = command(**given)
        if as_json:
            print_json(value)
        else:
            show()
        if any(failed):
            raise typer.Exit(1)

    parameters = dict(signature(command).parameters)
    as_json = Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=bool)
    _take(run, [*(one for name, one in parameters.items() if name != "as_json"), as_json])
    return run


def on_memory(command: Callable[..., Shown]) -> Callable[..., None]:
    """Make a command of a function that is given a memory, with --db, --user and --json added."""

    def shared(*, db: Anywhere = AGENT_DB, user: str | None = None) -> None: ...

    @wraps(command)
    def run(*, db: Place, user: str | None, **own: Any) -> Shown:
        with opened(db, user) as memory:
            return command(memory, **own)

    _, *own = signature(command).parameters.values()
    _take(run, [*signature(shared).parameters.values(), *own])
    return telling(run)


def _take(command: Callable[..., Any], parameters: Sequence[Parameter]) -> None:
    named = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in parameters]
    command.__signature__ = Signature(named)  # type: ignore[attr-defined]


def _named(users: list[str]) -> str:
    some = ", ".join(users[:10]) + (" …" if len(users) > 10 else "")
    return f"; there are: {some}" if users else ""


def require_database(db: Place) -> None:
    """Refuse to go on without the file or the tables: looking at a memory must not make one."""
    if database_exists(db):
        return
    if db.path is None:
        raise StorageError(f"there is no memory in {db} yet; make its tables: jiyi migrate {db_option(db)}")
    raise StorageError(f"there is no database {db}; make one: jiyi import FILE {db_option(db)} --user NAME")


def db_option(db: Place) -> str:
    """Return the words that name a database in a command to be copied; a password is not among them."""
    return f"--db {shlex.quote(str(db))}"


@contextmanager
def brief_errors() -> Iterator[None]:
    """Turn a `JiyiError` into one line on standard error and exit code 1."""
    try:
        yield
    except JiyiError as error:
        fail(str(error))


def parse_moment(text: str | None, name: str) -> datetime | None:
    """Read an ISO 8601 date or time; without a zone it is in the settings' one."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=load_settings().zone)
    except ValueError:
        raise typer.BadParameter(f"--{name} {text!r} is not an ISO 8601 date such as 2026-03-02") from None


def note_pending(memory: MemoryManager) -> None:
    """Say on standard error that search is not yet whole; a server makes its vectors by itself."""
    if isinstance(memory, RemoteMemory):
        return
    if pending := memory.stats()["vectors_pending"]:
        note(
            f"{pending} records are found by their words only, their vectors are pending; "
            "finish them with: jiyi reembed"
        )
