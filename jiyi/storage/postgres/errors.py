"""Translation of errors of psycopg and its pool, and retries."""

import time
from collections.abc import Callable
from random import SystemRandom
from typing import TypeVar

import psycopg
import psycopg_pool
from psycopg import errors as pg

from jiyi import errors
from jiyi.storage.database import Translations

_T = TypeVar("_T")

_CUT = (pg.AdminShutdown, pg.CrashShutdown, pg.CannotConnectNow, pg.IdleSessionTimeout)
_CLASS_OF_CONNECTIONS = "08"  # of SQLSTATE
# Messages of Citus without a SQLSTATE of their own when a machine was lost in a transaction.
_OF_CLUSTER = ("connection marked as essential", "could not commit transaction for shard")
_NOT_KNOWN = "whether the change was written is not known, look before doing it again"
_CONFLICTS = 10  # retries of a transaction that the server rolled back
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds between two tries
_RANDOM = SystemRandom()  # differs in forked processes, and leaves a program's seed alone


class ConnectionLost(errors.DatabaseUnreachable):
    """The connection broke; a retry on a new one may succeed.

    ``maybe_done``: the COMMIT was sent, so the change may have been written or not.
    """

    def __init__(self, message: str, *, maybe_done: bool = False) -> None:
        super().__init__(message)
        self.maybe_done = maybe_done


class MachineLost(ConnectionLost):
    """One machine of a cluster does not answer its coordinator; users on other machines are not affected."""


class Conflict(errors.DatabaseBusy):
    """The server rolled this transaction back because of another one; a retry may succeed."""


_KNOWN = vars(pg) | vars(psycopg_pool), vars(errors) | {"Conflict": Conflict}
_ANY_CONNECTION = Translations(__package__, "any_connection", *_KNOWN)
_SOUND_CONNECTION = Translations(__package__, "sound_connection", *_KNOWN)


def is_lost(error: psycopg.Error, connection: psycopg.Connection | None) -> bool:
    """Return whether an error means that the connection is lost."""
    if connection is not None and (connection.broken or connection.closed):
        return True
    # Errors without a code are not from the server: libpq found the connection unusable.
    of_libpq = isinstance(error, psycopg.OperationalError) and not isinstance(error, pg.PipelineAborted)
    if of_libpq and error.sqlstate is None:
        return True
    return isinstance(error, _CUT) and not _is_elsewhere(error)


def _is_elsewhere(error: psycopg.Error) -> bool:
    """Return whether an error is about the server's connection to another one; for ours it is FATAL."""
    code, said = error.sqlstate or "", error.diag.message_primary or ""
    between = code[:2] == _CLASS_OF_CONNECTIONS or isinstance(error, _CUT)
    of_cluster = any(part in said for part in _OF_CLUSTER)
    return error.diag.severity_nonlocalized == "ERROR" and (between or of_cluster)


def translate(
    error: psycopg.Error, place: str, connection: psycopg.Connection | None, *, committing: bool = False
) -> errors.StorageError:
    """Return jiyi's error for one of psycopg.

    ``connection`` is None if connecting failed; ``committing``: the COMMIT had been sent.
    """
    values = {"place": place, "said": _message(error)}
    if found := _ANY_CONNECTION.find(error, **values):
        return found
    end = f"; {_NOT_KNOWN if committing else 'nothing was written'}"
    if connection is not None and not connection.closed and _is_elsewhere(error):
        lost = "a machine of {place} does not answer ({said}); only users whose rows are there are affected"
        return MachineLost(lost.format(**values) + end, maybe_done=committing)
    if connection is not None and is_lost(error, connection):
        lost = "the connection to {place} broke ({said})"
        return ConnectionLost(lost.format(**values) + end, maybe_done=committing)
    if found := _SOUND_CONNECTION.find(error, **values):
        return found
    if connection is None and isinstance(error, psycopg.OperationalError):
        away = "{place} cannot be reached ({said}); check that the server runs, the address, the user and "
        return errors.DatabaseUnreachable((away + "the password").format(**values))
    return errors.StorageError("{place}: {said}".format(**values))


def _message(error: psycopg.Error) -> str:
    return " ".join((error.diag.message_primary or str(error) or type(error).__name__).split())


def retry(verb: Callable[[], _T], *, seconds: float, repeatable: bool) -> _T:
    """Call a function until it succeeds, fails with a permanent error, or the time is over.

    Pauses double from 0.05 to 1 s, shortened at random so that clients do not all return at once.

    ``repeatable`` as for `Database.attempt`; ``seconds``: how long to wait for a server that is away.
    """
    until, pause = time.monotonic() + seconds, _FIRST_PAUSE
    conflicts, maybe_done = 0, False
    while True:
        try:
            return verb()
        except ConnectionLost as error:
            maybe_done = maybe_done or error.maybe_done
            if (maybe_done and not repeatable) or time.monotonic() >= until:
                if error.maybe_done or not maybe_done:
                    raise
                raise type(error)(f"{error}; {_NOT_KNOWN}", maybe_done=True) from error
        except Conflict:
            conflicts += 1
            if conflicts > _CONFLICTS:
                raise
        time.sleep(min(_RANDOM.uniform(pause / 2, pause), max(until - time.monotonic(), 0)))
        pause = min(pause * 2, _LONGEST_PAUSE)
