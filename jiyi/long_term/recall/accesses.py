"""Access counts: which episodes and knowledge were recalled, written after the answer is returned."""

import logging
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import cast

from jiyi.clock import Clock, utc_now
from jiyi.errors import JiyiError
from jiyi.records import Episode, Fact, Hit, Knowledge, Query, Scope
from jiyi.storage import Key, Store

__all__ = ["Accesses"]

_PAUSE = 2.0  # seconds that accesses are gathered before they are written
_BATCH = 500  # records of one transaction

_log = logging.getLogger("jiyi")


class Accesses:
    """Counts what recall returned, off the read path.

    `note` only adds to a list in memory. A daemon thread writes what was gathered two seconds
    later, many records in one transaction; `close` writes the rest. A process that is
    killed loses at most the last two seconds' counts, never a record. Counts of other
    processes are added to, not overwritten.
    """

    def __init__(self, store: Store, *, clock: Clock = utc_now) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._counts: Counter[tuple[str, Key]] = Counter()
        self._latest: dict[tuple[str, Key], datetime] = {}
        self._thread: threading.Thread | None = None

    def note(self, scope: Scope, hits: Sequence[Hit]) -> None:
        """Remember that these hits were returned now; messages are not counted."""
        found = [(scope.user_id, (hit.kind, hit.id)) for hit in hits if hit.kind != "message"]
        if not found:
            return
        now = self._clock()
        with self._lock:
            self._counts.update(found)
            self._latest.update(dict.fromkeys(found, now))
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run, name="jiyi-accesses", daemon=True)
                self._thread.start()
        self._wake.set()

    def flush(self) -> None:
        """Write what was gathered so far.

        Raises:
            StorageError: the database cannot be written; the counts are kept for the next try.
        """
        with self._writing:
            with self._lock:
                counts, latest = self._counts, self._latest
                self._counts, self._latest = Counter(), {}
            waiting = list(counts)
            try:
                while waiting:
                    self._write({key: counts[key] for key in waiting[:_BATCH]}, latest)
                    waiting = waiting[_BATCH:]
            except BaseException:
                with self._lock:
                    self._counts.update({key: counts[key] for key in waiting})
                    self._latest = {key: latest[key] for key in waiting} | self._latest
                raise

    def close(self) -> None:
        """Stop the thread and write the rest; what cannot be written is logged."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(5)
        self._try()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait()
            if not self._stopping.wait(_PAUSE):
                self._wake.clear()
                self._try()

    def _try(self) -> None:
        try:
            self.flush()
        except JiyiError as error:
            _log.warning("access counts wait: %s", error)

    def _write(self, counts: dict[tuple[str, Key], int], latest: dict[tuple[str, Key], datetime]) -> None:
        with self._store.transaction():
            for (user, (kind, id_)), times in counts.items():
                query = Query(scope=Scope(user_id=user), kinds=(kind,), ids=(id_,), limit=1)
                for record in cast("list[Episode | Knowledge | Fact]", self._store.find(query)):
                    before = record.last_accessed_at
                    now = latest[user, (kind, id_)]
                    counted = replace(
                        record,
                        access_count=record.access_count + times,
                        last_accessed_at=now if before is None else max(before, now),
                    )
                    self._store.put([counted])
