"""Access counts: which episodes and knowledge were recalled, written after the answer is returned."""

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
from jiyi.storage import Key, Store
from jiyi.time_limit import OutOfTime, run_within

__all__ = ["Accesses"]

_PAUSE = 2.0  # seconds that accesses are gathered before they are written
_BATCH = 500  # records of one transaction
_Place = tuple[str, Key]  # whose, and which record
_Accessed = tuple[int, datetime]  # how often, and when last

_COUNTED = FIELDS["access_count"].kinds
_log = logging.getLogger("jiyi")


class Accesses(Worker):
    """Counts what recall returned, off the read path.

    `note` only adds to a list in memory. A daemon thread writes it two seconds later, many records
    of a user in one transaction; `close` writes the rest. A process that is killed loses at most
    the last two seconds' counts, never a record. Counts of several processes add up.
    """

    def __init__(self, store: Store, *, clock: Clock = utc_now) -> None:
        super().__init__(
            "accesses",
            poll=threading.TIMEOUT_MAX,
            failed=lambda error: StorageError(f"access counts wait: {error!r}"),
            final=(Closed,),
        )
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._waiting: dict[_Place, _Accessed] = {}

    def note(self, scope: Scope, hits: Sequence[Hit]) -> None:
        """Remember that these hits were returned now; messages and items are not counted."""
        found = [(scope.user_id, (hit.kind, hit.id)) for hit in hits if hit.kind in _COUNTED]
        if not found:
            return
        now = self._clock()
        with self._lock:
            for place in found:
                self._add(place, 1, now)
            if not self._stopping.is_set():
                self.start()
        self.notify()

    def flush(self) -> None:
        """Write what was gathered so far.

        Raises:
            StorageError: the database cannot be written; the counts are kept for the next try.
        """
        with self._writing:
            with self._lock:
                waiting, self._waiting = self._waiting, {}
            try:
                for user_id in dict.fromkeys(user_id for user_id, _ in waiting):
                    mine = [place for place in waiting if place[0] == user_id]
                    for start in range(0, len(mine), _BATCH):
                        piece = {place: waiting[place] for place in mine[start : start + _BATCH]}
                        self._store.together(partial(self._write, user_id, piece))
                        for place in piece:
                            del waiting[place]
            except BaseException:
                with self._lock:
                    for place, (times, at) in waiting.items():
                        self._add(place, times, at)
                raise

    def close(self, timeout: float = 5.0) -> None:
        """Stop the thread and write the rest, for at most ``timeout`` seconds; log what cannot be written."""
        super().close(timeout)
        try:
            run_within(self.flush, timeout, owner=self)
        except (JiyiError, OutOfTime) as error:
            _log.warning("access counts wait: %s", error)

    def _turn(self) -> bool:
        if not self._stopping.wait(_PAUSE):
            self.flush()
        return False

    def _add(self, place: _Place, times: int, at: datetime) -> None:
        before, last = self._waiting.get(place, (0, at))
        self._waiting[place] = before + times, max(last, at)

    def _write(self, user_id: str, accesses: dict[_Place, _Accessed]) -> None:
        keys = [key for _, key in accesses]
        there = cast("dict[Key, Episode | Knowledge | Fact]", self._store.find_by_keys(user_id, keys))
        counted = [
            replace(
                record,
                access_count=record.access_count + times,
                last_accessed_at=max(at, record.last_accessed_at or at),
            )
            for (_, key), (times, at) in accesses.items()
            if (record := there.get(key))
        ]
        self._store.put(counted)
