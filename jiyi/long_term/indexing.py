"""Vectors follow rows: embedding what was stored, in the background or on demand."""

import logging
import threading
import time
from collections.abc import Callable

from jiyi.embeddings import Embedder, split_parts
from jiyi.errors import (
    Closed,
    EmbedderMismatch,
    EmbeddingError,
    EndpointUnreachable,
    ModelMissing,
    TextRefused,
)
from jiyi.long_term.worker import Worker
from jiyi.storage import Binding, PendingText, VectorIndex, VectorRow

__all__ = ["NO_STATUS", "Indexer"]

NO_STATUS = 1  # why a record is set apart where no endpoint gave an HTTP status

_FEWEST, _MOST = 8, 32  # records embedded at once: the first ones, and where it goes fast
_PIECE = 0.5  # seconds that they should take at most: so often it is stored, told, and can be stopped
_HEAD = 600  # characters of a tool's output that are embedded
_FEW = 64  # records saved while others were embedded that may wait until the switch
_POLL = 15.0  # seconds between looks for work that another process left

_log = logging.getLogger("jiyi")


_Refused = tuple[PendingText, Exception]
_UNASKED = (EndpointUnreachable, EmbedderMismatch, ModelMissing)  # they say nothing about the texts


class Indexer(Worker):
    """Makes pending vectors: in a worker thread, and in `flush`.

    What is pending is recorded in the database, so a crash loses nothing: the worker of the next
    open continues. A record that the embedder refuses while it embeds others is set apart, with the
    reason, until `reembed`. When nothing is pending, ``afterwards`` does a piece of the work that
    needs vectors, and returns whether there is more.
    """

    def __init__(
        self, vectors: VectorIndex, embedder: Embedder, *, afterwards: Callable[[], bool] | None = None
    ) -> None:
        self._vectors = vectors
        self._embedder = embedder
        self._afterwards = afterwards
        self._working = threading.Lock()  # worker and flush never embed the same text side by side
        self._past_leases = True
        self._batch = _FEWEST
        super().__init__(
            "indexer",
            poll=_POLL,
            failed=lambda error: EmbeddingError(f"the embedder failed: {error!r}"),
            final=(Closed, EmbedderMismatch),
        )

    def flush(self, progress: Callable[[int], None] | None = None) -> int:
        """Embed what is pending when called, of all users; return how many records.

        Without the bundled model's data file nothing is embedded and the log says so, once.
        ``progress`` is called with the number of records done after each batch.

        Raises:
            EmbeddingError: the embedder failed; what was done stays done.
        """
        try:
            return self._finish(progress)
        except ModelMissing as error:
            self._note(error, "records are found by their words only")
            return 0

    def apart(self, user_id: str) -> int:
        """Return how many records of a user are set apart."""
        return sum(self._vectors.count_set_aside(user_id).values())

    def reembed(self, progress: Callable[[int], None] | None = None) -> int:
        """Bind the data to this embedder and embed everything again; return the number of records embedded.

        If the data is this embedder's and some vectors are pending, only those are made; what was
        set apart is tried again. Otherwise a second set of vectors is made while the old one is
        still searched, and replaces it when it is complete. What others save meanwhile is found in
        the old set at once, and is in the new one when this returns. After an interruption, a new
        call continues.
        """
        name = self._embedder.name
        bound = self._vectors.claim()
        taken_up = self._vectors.requeue_set_aside()
        if bound.name in (None, name) and bound.renewing != name:
            done = self._finish(progress)
            if done or taken_up or bound.name is None:
                return done
        self._vectors.renew(name, self._embedder.dims)
        done = self._fill(progress)
        self._vectors.switch(name)
        return done + self._finish(lambda more: progress(done + more) if progress else None)

    def _finish(self, progress: Callable[[int], None] | None) -> int:
        done, waiting = 0, self._vectors.count_pending()
        while (count := self._step(leased=False)) is not None:
            done += count
            if progress:
                progress(done)
            if done >= waiting:  # while others keep saving there is always more: that is the worker's
                break
        while self._follow_up():
            pass
        return done

    def _turn(self) -> bool:
        # Leases of a process that died, or of this worker's own failed batch, are looked past: at
        # the start and after a failure, once nothing else is left to do.
        past_leases, self._past_leases = self._past_leases, True
        busy = self._step(leased=True) is not None
        busy = busy or (past_leases and self._step(leased=False) is not None)
        self._past_leases = past_leases and busy
        return busy or self._follow_up()

    def _follow_up(self) -> bool:
        return self._afterwards is not None and self._afterwards()

    def _fill(self, progress: Callable[[int], None] | None) -> int:
        """Give the second set what it lacks, and what is saved meanwhile as far as it is more than a few."""
        done = 0
        while True:
            before = done
            while batch := self._vectors.pending(self._batch, name=self._embedder.name):
                with self._working:
                    # What is refused is pending after the switch, and set apart then.
                    done += self._vectors.add(self._rows(batch)[0], name=self._embedder.name)
                if progress:
                    progress(done)
            if done - before < _FEW:
                return done

    def _step(self, *, leased: bool) -> int | None:
        """Embed a batch; return how many records of it got vectors, None where nothing is pending."""
        with self._working:
            # Before anything is leased or embedded for nothing.
            bound = self._vectors.claim(self._embedder.name)
            batch = self._vectors.pending(self._batch, leased=leased)
            return self._embed(batch, bound) if batch else None

    def _embed(self, batch: list[PendingText], bound: Binding) -> int:
        rows, refused = self._rows(batch)
        if rows:
            if (bound.name, bound.dims) != (self._embedder.name, self._embedder.dims):
                self._vectors.claim(self._embedder.name, self._embedder.dims)
            self._vectors.add(rows, name=self._embedder.name)
        for item, error in refused:
            self._vectors.set_aside(item.key, error.status if isinstance(error, TextRefused) else NO_STATUS)
            _log.warning("a text is found by its words only until it is embedded by reembed: %s", error)
        self.last_error = None
        return len(rows)

    def _rows(self, batch: list[PendingText]) -> tuple[list[VectorRow], list[_Refused]]:
        """Return the vectors of a batch, and which records of it are refused, each when it is alone.

        Raises what the embedder raised, where it embeds nothing at all now.
        """
        try:
            return self._embedded(batch), []
        except _UNASKED:
            raise
        except Exception as error:
            if not isinstance(error, TextRefused):
                self._check(error)
        rows: list[VectorRow] = []
        refused: list[_Refused] = []
        for item in batch:
            try:
                rows += self._embedded([item])
            except _UNASKED:
                raise
            except Exception as error:
                refused.append((item, error))
        if any(not isinstance(error, TextRefused) for _, error in refused):
            self._check(refused[0][1])
        return rows, refused

    def _check(self, error: Exception) -> None:
        """Raise the error unless the embedder embeds a text that no cache can know."""
        try:
            self._embedder.embed([f"{time.time_ns()}"], "passage")
        except Exception:
            raise error from None

    def _embedded(self, batch: list[PendingText]) -> list[VectorRow]:
        started = time.monotonic()
        parts = [_parts(item) for item in batch]
        # Each text once, the longest first: threads that share them come to the end together.
        texts = sorted({part for some in parts for part in some}, key=lambda text: (-len(text), text))
        matrix = self._embedder.embed(texts, "passage")
        places = {text: place for place, text in enumerate(texts)}
        took = time.monotonic() - started
        self._batch = min(2 * self._batch, _MOST) if took < _PIECE / 2 else self._batch
        self._batch = max(self._batch // 2, _FEWEST) if took > _PIECE else self._batch
        return [
            VectorRow(key=item.key, vectors=matrix[[places[part] for part in some]])
            for item, some in zip(batch, parts, strict=True)
        ]


def _parts(item: PendingText) -> list[str]:
    """Return the pieces of a text that get a vector each.

    A tool's output gets one, of its beginning: logs and tables are found by their words,
    which text search reads to the end, and embedding them whole costs seconds each.
    """
    return split_parts(item.text, size=_HEAD, most=1) if item.role == "tool" else split_parts(item.text)
