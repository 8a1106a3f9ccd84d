"""Access counts: how often records were recalled, written in the background."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import cast

from jiyi.clock import Clock, utc_now
from jiyi.errors import Closed, JiyiError, StorageError
from jiyi.long_term.worker import Worker
from jiyi.records import FIELDS, Episode, Fact, Hit, Knowledge, Scope
from jiyi.storage import Key, Store, batched
from jiyi.time_limit import OutOfTime, run_within

__all__ = ["Accesses"]

_WRITE_DELAY = 2.0  # seconds that accesses are collected before they are written
_MAX_BATCH = 500  # records in one transaction
_RecordKey = tuple[str, Key]  # user id and key
_Count = tuple[int, datetime]  # number of accesses, and the last one

_COUNTED_KINDS = FIELDS["access_count"].kinds
_log = logging.getLogger("jiyi")


class Accesses(Worker):
    """Counts what recall returned without delaying the search.

    `note` only counts in memory. A daemon thread writes the counts two seconds later, many records
    of a user in one transaction; `close` writes the rest. A process that is killed loses at most
    the counts of the last two seconds, never a record. Counts of several processes add up.
    """

    def __init__(self, store: Store, *, clock: Clock = utc_now) -> None:
        super().__init__(
            "accesses",
            poll_seconds=threading.TIMEOUT_MAX,
            wrap_error=lambda error: StorageError(f"access counts wait: {error!r}"),
            fatal_errors=(Closed,),
        )
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._pending: dict[_RecordKey, _Count] = {}

    def note(self, scope: Scope, hits: Sequence[Hit]) -> None:
        """Count one access of each hit, now; messages and items are not counted."""
        returned = [(scope.user_id, (hit.kind, hit.id)) for hit in hits if hit.kind in _COUNTED_KINDS]
        if not returned:
            return
        now = self._clock()
        with self._lock:
            for record_key in returned:
                self._add(record_key, 1, now)
            if not self._stopping.is_set():
                self.start()
        self.notify()

    def flush(self) -> None:
        """Write the pending counts.

        Raises:
            StorageError: the database cannot be written; the counts stay pending.
        """
        with self._flush_lock:
            with self._lock:
                pending, self._pending = self._pending, {}
            try:
                for user_id in dict.fromkeys(user_id for user_id, _ in pending):
                    of_user = [record_key for record_key in pending if record_key[0] == user_id]
                    for keys in batched(of_user, _MAX_BATCH):
                        counts = {key: pending[key] for key in keys}
                        self._store.together(partial(self._write, user_id, counts))
                        for record_key in keys:
                            del pending[record_key]
            except BaseException:
                with self._lock:
                    for record_key, (times, at) in pending.items():
                        self._add(record_key, times, at)
                raise

    def close(self, timeout: float = 5.0) -> None:
        """Stop the thread and write the pending counts within ``timeout`` seconds; log a failure."""
        super().close(timeout)
        try:
            run_within(self.flush, timeout, owner=self)
        except (JiyiError, OutOfTime) as error:
            _log.warning("access counts wait: %s", error)

    def _run_once(self) -> bool:
        if not self._stopping.wait(_WRITE_DELAY):
            self.flush()
        return False

    def _add(self, record_key: _RecordKey, times: int, at: datetime) -> None:
        before, last = self._pending.get(record_key, (0, at))
        self._pending[record_key] = before + times, max(last, at)

    def _write(self, user_id: str, counts: dict[_RecordKey, _Count]) -> None:
        keys = [key for _, key in counts]
        stored = cast("dict[Key, Episode | Knowledge | Fact]", self._store.find_by_keys(user_id, keys))
        updated = [
            replace(
                record,
                access_count=record.access_count + times,
                last_accessed_at=max(at, record.last_accessed_at or at),
            )
            for (_, key), (times, at) in counts.items()
            if (record := stored.get(key))
        ]
        self._store.put(updated)
