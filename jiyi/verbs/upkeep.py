"""Verbs about the memory itself: figures, pending vectors, closing."""

from collections.abc import Callable, Mapping
from typing import Self

from jiyi.long_term import ReadingState
from jiyi.records import SEARCHABLE, Kind, Query
from jiyi.verbs.base import Verbs, closed

__all__ = ["UpkeepVerbs"]


class UpkeepVerbs(Verbs):
    """Look after the memory."""

    def stats(self, *, user_id: str | None = None, agent_id: str | None = None) -> Mapping[str, int]:
        """Return how many records of each kind there are, and ``vectors_pending``.

        For all agents together also ``vectors_apart``, if the embedder refuses some texts: these wait for
        `reembed`; and ``messages_unread``, if a language model reads in the background.
        """
        kinds: tuple[Kind, ...] = (*SEARCHABLE, "session", "task", "summary")
        scope = self._scope(user_id, agent_id)
        counts = dict(self._store.count(Query(scope=scope, kinds=kinds)))
        if apart := self._long_term.indexer.apart(scope.user_id):
            counts["vectors_apart"] = apart
        if self._long_term.reader is not None:
            counts["messages_unread"] = self._long_term.reader.unread(scope.user_id)
        return counts

    def reading(self) -> ReadingState | None:
        """Return what waits for the background reader, its costs and errors; None if no model reads."""
        return None if self._long_term.reader is None else self._long_term.reader.state()

    def flush(self, progress: Callable[[int], None] | None = None) -> int:
        """Make the vectors that are pending now, for every user; return the number of records embedded.

        First waits for summaries that a language model is writing in this process; one that fails raises
        nothing here, but is in the notes of its session's next window. Without the bundled model's data file
        nothing is embedded, and the log says so once. After an `EmbeddingError` what was done stays done.
        """
        self._summaries.flush()
        return self._long_term.indexer.flush(progress)

    def reembed(self, progress: Callable[[int], None] | None = None) -> int:
        """Bind the data to the embedder in use and embed everything again; return the number of records.

        If some vectors are pending, only those are made; what the embedder refused is tried again. Otherwise
        searches use the old ones until the new ones are complete; called again after an interruption, it
        continues. Raises `EmbeddingError`, and `ModelMissing` without the bundled model's data file.
        """
        return self._long_term.indexer.reembed(progress)

    def close(self) -> None:
        """Stop the background work and release the database; what is pending waits for the next open.

        A summary being written has five seconds to be stored; otherwise a later window folds again.
        """
        if self._needs_reopening:  # opened before a fork, and not used in this process
            self._reopen = closed
            return
        self._short_term.close()
        self._summaries.close()
        for worker in self._parts.workers:
            worker.close()
        self._long_term.recall.close()
        self._store.close()
        self._parts.on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
