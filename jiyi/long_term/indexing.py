"""Embeds stored records, in the background or on demand."""

import logging
import threading
import time
from collections.abc import Callable
from itertools import chain

from jiyi import errors
from jiyi.embeddings import Embedder, split_parts
from jiyi.long_term.worker import Worker
from jiyi.storage import PendingText, VectorIndex, VectorRow

__all__ = ["NO_STATUS", "Indexer"]

NO_STATUS = 1  # the reason stored with a record set apart without an HTTP status

_MIN_BATCH, _MAX_BATCH = 8, 32  # records embedded at once: at first, and with a fast embedder
_MAX_BATCH_SECONDS = 0.5  # a batch should take: after each, vectors are stored and it can be stopped
_TOOL_OUTPUT_CHARS = 600  # of a tool's output that are embedded
_MAX_MISSING_AT_SWITCH = 64  # records saved meanwhile that may lack a vector of the new embedder
_POLL_SECONDS = 15.0  # between checks for work of other processes

_log = logging.getLogger("jiyi")


_Refused = tuple[PendingText, Exception]
_NOT_ABOUT_THE_TEXT = (errors.EndpointUnreachable, errors.EmbedderMismatch, errors.ModelMissing)


class Indexer(Worker):
    """Makes the missing vectors, in a worker thread and in `flush`.

    Pending records are listed in the database, so a crash loses nothing: the worker of the next
    open continues. A record that the embedder refuses while it embeds others is set apart, with the
    reason, until `reembed`. When nothing is pending, ``after_embedding`` does a piece of the work that
    needs vectors, and returns whether there is more.
    """

    def __init__(
        self, vectors: VectorIndex, embedder: Embedder, *, after_embedding: Callable[[], bool] = lambda: False
    ) -> None:
        self._vectors, self._embedder, self._after_embedding = vectors, embedder, after_embedding
        self._embed_lock = threading.Lock()  # worker and flush must not embed the same text
        self._past_leases, self._batch = True, _MIN_BATCH
        super().__init__(
            "indexer",
            poll_seconds=_POLL_SECONDS,
            wrap_error=lambda error: errors.EmbeddingError(f"the embedder failed: {error!r}"),
            fatal_errors=(errors.Closed, errors.EmbedderMismatch),
        )

    def flush(self, progress: Callable[[int], None] | None = None) -> int:
        """Embed the records of all users that are pending now; return how many; see `MemoryManager.flush`.

        ``progress`` is called after each batch with the number of records done.
        """
        try:
            return self._embed_pending(progress)
        except errors.ModelMissing as error:
            self._record_error(error, "records are found by their words only")
            return 0

    def apart(self, user_id: str) -> int:
        """Return how many records of a user are set apart."""
        return sum(self._vectors.count_set_aside(user_id).values())

    def reembed(self, progress: Callable[[int], None] | None = None) -> int:
        """Bind the data to this embedder and embed everything again; return the number of records embedded.

        As `MemoryManager.reembed`: what others save meanwhile is found in the old set of vectors at once, and
        is in the new one when this returns.
        """
        name = self._embedder.name
        bound = self._vectors.claim()
        retried = self._vectors.requeue_set_aside()
        if bound.name in (None, name) and bound.next_name != name:
            done = self._embed_pending(progress)
            if done or retried or bound.name is None:
                return done
        self._vectors.renew(name, self._embedder.dims)
        done = self._fill_new_space(progress)
        self._vectors.switch(name)
        return done + self._embed_pending(lambda more: progress(done + more) if progress else None)

    def _embed_pending(self, progress: Callable[[int], None] | None) -> int:
        done, waiting = 0, self._vectors.count_pending()
        while (count := self._embed_batch(leased=False)) is not None:
            done += count
            if progress:
                progress(done)
            if done >= waiting:  # the worker embeds what others save meanwhile
                break
        while self._after_embedding():
            pass
        return done

    def _run_once(self) -> bool:
        # At the start and after a failure, once nothing else is pending, also embed what is leased: by a
        # process that died, or by this worker's own failed batch.
        past_leases, self._past_leases = self._past_leases, True
        busy = self._embed_batch(leased=True) is not None
        busy = busy or (past_leases and self._embed_batch(leased=False) is not None)
        self._past_leases = past_leases and busy
        return busy or self._after_embedding()

    def _fill_new_space(self, progress: Callable[[int], None] | None) -> int:
        """Embed for the second set of vectors, until little of what is saved meanwhile is missing."""
        done = 0
        while True:
            before = done
            while batch := self._vectors.pending(self._batch, name=self._embedder.name):
                with self._embed_lock:
                    # What is refused is still pending after the switch, and set apart then.
                    done += self._vectors.add(self._embed_or_refuse(batch)[0], name=self._embedder.name)
                if progress:
                    progress(done)
            if done - before < _MAX_MISSING_AT_SWITCH:
                return done

    def _embed_batch(self, *, leased: bool) -> int | None:
        """Embed a batch; return how many of its records got vectors, None if nothing is pending."""
        with self._embed_lock:
            bound = self._vectors.claim(self._embedder.name)  # raises before anything is leased or embedded
            batch = self._vectors.pending(self._batch, leased=leased)
            if not batch:
                return None
            rows, refused = self._embed_or_refuse(batch)
            if rows:
                if (bound.name, bound.dims) != (self._embedder.name, self._embedder.dims):
                    self._vectors.claim(self._embedder.name, self._embedder.dims)
                self._vectors.add(rows, name=self._embedder.name)
            for item, error in refused:
                why = error.status if isinstance(error, errors.TextRefused) else NO_STATUS
                self._vectors.set_aside(item.key, why)
                _log.warning("a text is found by its words only until it is embedded by reembed: %s", error)
            self.last_error = None
            return len(rows)

    def _embed_or_refuse(self, batch: list[PendingText]) -> tuple[list[VectorRow], list[_Refused]]:
        """Return vectors, and records refused even alone; raise if the embedder embeds nothing now."""
        try:
            return self._embed_texts(batch), []
        except _NOT_ABOUT_THE_TEXT:
            raise
        except Exception as error:
            if not isinstance(error, errors.TextRefused):
                self._raise_if_embedder_fails(error)
        rows, refused = list[VectorRow](), list[_Refused]()
        for item in batch:
            try:
                rows += self._embed_texts([item])
            except _NOT_ABOUT_THE_TEXT:
                raise
            except Exception as error:
                refused.append((item, error))
        if any(not isinstance(error, errors.TextRefused) for _, error in refused):
            self._raise_if_embedder_fails(refused[0][1])
        return rows, refused

    def _raise_if_embedder_fails(self, error: Exception) -> None:
        """Raise the error unless the embedder embeds a new text, which no cache can know."""
        try:
            self._embedder.embed([f"{time.time_ns()}"], "passage")
        except Exception:
            raise error from None

    def _embed_texts(self, batch: list[PendingText]) -> list[VectorRow]:
        started = time.monotonic()
        # A tool's output gets one vector, of its beginning: logs and tables are found by their words.
        beginning = {"size": _TOOL_OUTPUT_CHARS, "most": 1}
        parts = [split_parts(item.text, **(beginning if item.role == "tool" else {})) for item in batch]
        # Each text once, the longest first, so that threads that share them end together.
        texts = sorted(set(chain.from_iterable(parts)), key=lambda text: (-len(text), text))
        matrix = self._embedder.embed(texts, "passage")
        places = {text: place for place, text in enumerate(texts)}
        seconds = time.monotonic() - started
        self._batch = min(2 * self._batch, _MAX_BATCH) if seconds < _MAX_BATCH_SECONDS / 2 else self._batch
        self._batch = max(self._batch // 2, _MIN_BATCH) if seconds > _MAX_BATCH_SECONDS else self._batch
        return [
            VectorRow(key=item.key, vectors=matrix[[places[part] for part in own_parts]])
            for item, own_parts in zip(batch, parts, strict=True)
        ]
