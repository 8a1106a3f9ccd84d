"""`jiyi serve` and `jiyi keys`: a server for other programs, and who may ask it."""

import json
import logging
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import typer

from jiyi.cli.app import described
from jiyi.cli.options import AGENT_DB, Db, Shown, brief_errors, telling
from jiyi.cli.terminal import note, say
from jiyi.clock import utc_now
from jiyi.databases import database_exists, open_ledger
from jiyi.errors import InputError, MissingExtra, NotFound, SettingsError
from jiyi.server import LOCAL_CALLER, Key, Keys
from jiyi.server.audit import audit
from jiyi.storage.place import Place
from jiyi.telling import safe_json
from jiyi.wiring import open_memory

__all__ = ["keys", "serve"]

_NONE = "make one with: jiyi keys create --tenant NAME"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_IDLE_SECONDS = 75  # longer than clients and balancers (5 to 60) keep a connection: else both end it at once
_TIME = re.compile(r"(\d{1,6})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}

keys = typer.Typer(help="Make, list, end and renew the API keys of a server.", no_args_is_help=True)


def serve(db: Db = AGENT_DB, host: str = "127.0.0.1", port: int = 8710, quiet: bool = False) -> None:
    """Serve the memory to other programs until Ctrl-C; needs the extra "api"."""
    with brief_errors():
        try:
            import uvicorn

            from jiyi.server.app import make_app
        except ImportError as error:
            raise MissingExtra('a server needs packages: pip install "jiyi[api]"') from error
        memory = open_memory(db)
        local = host in _LOOPBACK
        if not local and not memory.parts.ledger.keys():
            memory.close()
            raise SettingsError(
                f"{host} can be reached from other machines, and there are no keys yet; {_NONE}"
            )
        _log_lines(quiet=quiet)
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


@telling
def _create(
    db: Db = AGENT_DB,
    tenant: str = "",
    scopes: str = "read,write,forget",
    user: str | None = None,
    expires: str | None = None,
) -> Shown:
    """Make a key and show it, once."""
    with _keys(db, create=True) as kept:
        names = [name for name in re.split(r"[,\s]+", scopes) if name]
        key, secret = kept.create(tenant, names, user=user, expires_in=_time(expires))
        return _made(key, secret, "key.create")


@telling
def _list(db: Db = AGENT_DB, tenant: str | None = None) -> Shown:
    """List the keys, oldest first; the keys themselves are not kept."""
    found = []
    if database_exists(db):
        with _keys(db) as kept:
            found = kept.list(tenant)

    def show() -> None:
        for key in found:
            told = key.to_dict()
            ends = f"expires {told['expires_at'] or 'never'}"
            if key.revoked_at:
                ends = f"revoked {told['revoked_at']}"
            whose = f"tenant {told['tenant'] or '-'}, user {told['user'] or 'any'}"
            say(f"{key.name}  {whose}, {','.join(told['scopes'])}, made {told['created_at']}, {ends}")
        if not found:
            say(f"there are no keys yet; {_NONE}")

    return [key.to_dict() for key in found], show


def _revoke(name: str, db: Db = AGENT_DB) -> None:
    """End a key; servers notice within five seconds."""
    with brief_errors(), _keys(db) as kept:
        key = kept.revoke(name)
        audit("key.revoke", LOCAL_CALLER, name=key.name, of=key.caller.tenant)
    say(f"revoked {key.name}")


@telling
def _rotate(name: str, db: Db = AGENT_DB, keep: str | None = None) -> Shown:
    """Make a key that allows the same, and end the old one."""
    with _keys(db) as kept:
        key, secret = kept.rotate(name, keep=_time(keep) or timedelta(0))
        return _made(key, secret, "key.rotate")


for _command in (_create, _list, _revoke, _rotate):
    _name = _command.__name__[1:]
    keys.command(_name)(described(_command, f"keys {_name}"))


@contextmanager
def _keys(db: Place, *, create: bool = False) -> Iterator[Keys]:
    if not create and not database_exists(db):
        raise NotFound(f"there is no database {db}, and so no key; {_NONE}")
    with open_ledger(db) as ledger:
        yield Keys(ledger)


def _made(key: Key, secret: str, action: str) -> Shown:
    audit(action, LOCAL_CALLER, name=key.name, of=key.caller.tenant)

    def show() -> None:
        note("this is shown once; only its SHA-256 is kept")
        say(secret)

    return {**key.to_dict(), "key": secret}, show


def _time(given: str | None) -> timedelta | None:
    if given is None:
        return None
    parts = _TIME.fullmatch(given)
    if parts is None:
        raise InputError(f"{given!r} is no time such as 90d, 12h or 30m")
    return timedelta(**{_UNITS[parts[2]]: int(parts[1])})


class _Line(logging.Formatter):
    """Writes a line of JSON: the server's own records are that already."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if message.startswith("{"):
            return safe_json(message)
        line = {"time": utc_now().isoformat(), "level": record.levelname, "message": message}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return safe_json(json.dumps(line, ensure_ascii=False))


def _log_lines(*, quiet: bool) -> None:
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(_Line())
    levels = {"jiyi": logging.WARNING, "uvicorn.error": logging.WARNING if quiet else logging.INFO}
    for name, level in levels.items():
        logging.getLogger(name).addHandler(lines)
        logging.getLogger(name).setLevel(level)
    logging.getLogger("jiyi.server").setLevel(logging.WARNING if quiet else logging.INFO)
    logging.getLogger("jiyi.audit").setLevel(logging.INFO)
