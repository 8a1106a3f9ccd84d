"""`jiyi serve` and `jiyi keys`: a server for other programs, and its API keys."""

import json
import logging
import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import typer

from jiyi.cli.app import declare_options
from jiyi.cli.options import DEFAULT_DB, Db, Output, exit_on_error, json_command
from jiyi.cli.terminal import echo, note
from jiyi.clock import utc_now
from jiyi.databases import database_exists, open_ledger
from jiyi.errors import InputError, MissingExtra, NotFound, SettingsError
from jiyi.server import LOCAL_CALLER, Key, Keys
from jiyi.server.audit import audit
from jiyi.storage.place import Place
from jiyi.telling import safe_json
from jiyi.wiring import open_memory

__all__ = ["keys", "serve"]

_CREATE_HINT = "make one with: jiyi keys create --tenant NAME"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_IDLE_SECONDS = 75  # clients and balancers close after 5 to 60: closing first would race with their requests
_DURATION = re.compile(r"(\d{1,6})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}

keys = typer.Typer(help="Make, list, end and renew the API keys of a server.", no_args_is_help=True)


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
        local = host in _LOOPBACK
        if not local and not memory.parts.ledger.keys():
            memory.close()
            raise SettingsError(
                f"{host} can be reached from other machines, and there are no keys yet; {_CREATE_HINT}"
            )
        _set_up_logging(quiet=quiet)
        settings = memory.parts.settings
        config = uvicorn.Config(
            make_app(memory, local=local),
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=int(settings.server_stop_seconds),
        )
        for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises them again when it has stopped
            signal.signal(number, lambda *_: sys.exit(0))
        uvicorn.Server(config).run()


@json_command
def _create(
    db: Db = DEFAULT_DB,
    tenant: str = "",
    scopes: str = "read,write,forget",
    user: str | None = None,
    expires: str | None = None,
) -> Output:
    """Make a key and show it, once."""
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
            ends = f"expires {fields['expires_at'] or 'never'}"
            if key.revoked_at:
                ends = f"revoked {fields['revoked_at']}"
            whose = f"tenant {fields['tenant'] or '-'}, user {fields['user'] or 'any'}"
            echo(f"{key.name}  {whose}, {','.join(fields['scopes'])}, made {fields['created_at']}, {ends}")
        if not listed:
            echo(f"there are no keys yet; {_CREATE_HINT}")

    return [key.to_dict() for key in listed], show


def _revoke(name: str, db: Db = DEFAULT_DB) -> None:
    """End a key; servers notice within five seconds."""
    with exit_on_error(), _open_keys(db) as store:
        key = store.revoke(name)
        audit("key.revoke", LOCAL_CALLER, name=key.name, of=key.caller.tenant)
    echo(f"revoked {key.name}")


@json_command
def _rotate(name: str, db: Db = DEFAULT_DB, keep: str | None = None) -> Output:
    """Make a key that allows the same, and end the old one."""
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


def _parse_duration(given: str | None) -> timedelta | None:
    if given is None:
        return None
    parts = _DURATION.fullmatch(given)
    if parts is None:
        raise InputError(f"{given!r} is no time such as 90d, 12h or 30m")
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
    levels = {"jiyi": logging.WARNING, "uvicorn.error": logging.WARNING if quiet else logging.INFO}
    for name, level in levels.items():
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(level)
    logging.getLogger("jiyi.server").setLevel(logging.WARNING if quiet else logging.INFO)
    logging.getLogger("jiyi.audit").setLevel(logging.INFO)
