"""Shared parts of the commands: options, opening a memory, output as JSON, and errors as one line."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from jiyi.cli.app import set_parameters
from jiyi.cli.terminal import fail, note, plural, print_json
from jiyi.client.memory import RemoteMemory
from jiyi.databases import database_exists, list_users
from jiyi.errors import JiyiError, NotFound, ScopeMissing, SettingsError, StorageError
from jiyi.manager import MemoryManager
from jiyi.settings import load_settings
from jiyi.storage.place import Place, locate
from jiyi.wiring import open as open_memory

_SERVERS = ("https://", "http://")
DEFAULT_DB = Place(path=Path("agent.db"))
"""The default of `Db`, unless the setting ``database_url`` names another database."""


def parse_place(given: str) -> Place:
    """Parse the place of a database; an invalid one is a usage error."""
    try:
        return locate(given)
    except SettingsError as error:
        raise typer.BadParameter(str(error)) from None


def _parse_db(given: str | Place) -> Place:
    """Parse ``--db``; without it, use the setting ``database_url``, else the default."""
    if not isinstance(given, Place):
        return parse_place(given)
    try:
        url = load_settings().database_url
        return given if url is None else locate(url.get_secret_value())
    except SettingsError:  # reported by the command when it loads the settings
        return given


def _parse_db_or_server(given: str | Place) -> Place:
    return Place(url=str(given)) if str(given).startswith(_SERVERS) else _parse_db(given)


def _db_option(parser: Callable[[Any], Place], kinds: str) -> Any:
    texts: Any = {"metavar": "FILE|URL", "show_default": "JIYI_DATABASE_URL, or agent.db"}
    texts |= {"show_envvar": False, "help": f"The database: a file, {kinds}; also JIYI_DB."}
    return typer.Option("--db", envvar="JIYI_DB", parser=parser, **texts)


Db = Annotated[Place, _db_option(_parse_db, "or postgresql://…")]
DbOrServer = Annotated[Place, _db_option(_parse_db_or_server, "postgresql://…, or https://… of jiyi serve")]
"""A database, or the URL of a server: for commands that only call verbs."""


@contextmanager
def open_user_memory(
    db: Place, user: str | None, *, create: bool = False, **settings: Any
) -> Iterator[MemoryManager]:
    """Open the memory of one user; a `JiyiError` inside ends the command with its message.

    The user is the one given, else the one in the settings, else the only one in the database; a server
    knows the user by the key. Nothing runs in the background: commands embed explicitly or not at all.
    """
    with exit_on_error():
        if db.url and db.url.startswith(_SERVERS):
            with open_memory(db.url, user_id=user or load_settings().user_id) as memory:
                yield memory
            return
        if not create:
            require_database(db)
        users = list_users(db) if database_exists(db) else []
        user_id = user or load_settings().user_id or (users[0] if len(users) == 1 else None)
        names = f"; there are: {', '.join(users[:10])}{' …' * (len(users) > 10)}" if users else ""
        if user_id is None:
            raise ScopeMissing(f"whose memory? Pass --user NAME or set JIYI_USER_ID{names}")
        if not create and user_id not in users:
            raise NotFound(f"{db} holds nothing of user {user_id!r}{names}")
        with open_memory(db, user_id=user_id, background=False, **settings) as memory:
            yield memory


Output = tuple[Any, Callable[[], object]] | tuple[Any, Callable[[], object], bool]
"""The value that --json prints, the function that prints it for people, and whether the command failed."""


def json_command(command: Callable[..., Output]) -> Callable[..., None]:
    """Turn a function that returns its output into a command with the option --json."""

    @wraps(command)
    def run(*, as_json: bool, **options: Any) -> None:
        arguments = options | {"as_json": as_json} if "as_json" in parameters else options
        try:
            with exit_on_error():
                value, show, *failed = command(**arguments)
        except KeyboardInterrupt:
            note("stopped before the end")
            raise
        if as_json:
            print_json(value)
        else:
            show()
        if any(failed):
            raise typer.Exit(1)

    parameters = dict(signature(command).parameters)
    as_json = Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=bool)
    set_parameters(run, [*(one for name, one in parameters.items() if name != "as_json"), as_json])
    return run


def memory_command(command: Callable[..., Output]) -> Callable[..., None]:
    """Turn a function of a memory into a command with the options --db, --user and --json."""

    def shared(*, db: DbOrServer = DEFAULT_DB, user: str | None = None) -> None: ...

    @wraps(command)
    def run(*, db: Place, user: str | None, **options: Any) -> Output:
        with open_user_memory(db, user) as memory:
            return command(memory, **options)

    _, *options = signature(command).parameters.values()
    set_parameters(run, [*signature(shared).parameters.values(), *options])
    return json_command(run)


def require_database(db: Place) -> None:
    """Raise `StorageError` if there is no file or table yet: reading a memory must not create one."""
    if not database_exists(db):
        name = db_option(db)
        if db.path is None:
            raise StorageError(f"there is no memory in {db} yet; make its tables: jiyi migrate {name}")
        raise StorageError(f"there is no database {db}; make one: jiyi import FILE {name} --user NAME")


def db_option(db: Place) -> str:
    """Return the option that names a database in a command to copy, without a password."""
    return f"--db {shlex.quote(str(db))}"


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Print a `JiyiError` as one line on standard error and exit with code 1."""
    try:
        yield
    except JiyiError as error:
        fail(str(error))


def parse_moment(text: str | None, name: str) -> datetime | None:
    """Parse an ISO 8601 date or time; without a zone it is in that of the settings."""
    try:
        moment = datetime.fromisoformat(text) if text is not None else None
        return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=load_settings().zone)
    except ValueError:
        raise typer.BadParameter(f"--{name} {text!r} is not an ISO 8601 date such as 2026-03-02") from None


def note_pending_vectors(memory: MemoryManager) -> None:
    """Note that vectors are pending, so search is incomplete; a server makes its own."""
    if not isinstance(memory, RemoteMemory) and (pending := memory.stats()["vectors_pending"]):
        found = f"{plural(pending, 'record')} can be found by words only"
        note(f"{found}, vectors are pending; finish them with: jiyi reembed")
