"""The store: rows and words. The protocol every backend follows."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from jiyi.records import Kind, Query, Record
from jiyi.storage.blocks import Blocks
from jiyi.storage.candidates import Candidates, Key

__all__ = ["Store"]


class Store(Blocks, Protocol):
    """Keeps records and finds them by their fields and by their words.

    Guarantees: what `put` returned for is on disk and searchable by text; a row and its
    text index commit together; every verb sees only rows of its query's scope; safe to
    call from several threads, and several processes may hold the same database.

    All verbs raise `StorageError` where the database cannot do what is asked; nothing
    half-written remains then.
    """

    def put(self, records: Sequence[Record]) -> list[Record]:
        """Write records, all or none, and return them as stored (``seq`` filled in).

        A message whose id is taken by an equal message is left alone and returned as
        stored, so that a retry is safe; so is a summary. Tasks, steps, episodes, knowledge and
        facts of a known id are replaced; where the words stay the same, so do the vectors.
        Sessions are kept by the store itself and cannot be put.

        A summary goes in on top of the newest version there is of its session and agent only,
        the one its ``previous`` names, and covers no less. What is said later in the session
        comes behind its ``upto_seq``, also where all its messages are gone.

        Raises:
            DuplicateId: a message's or summary's id is taken by a different one, or a summary
                does not go on from the newest version.
            BadScope: a record lacks the scope it needs (messages need a session).
        """
        ...

    def find(self, query: Query) -> list[Record]:
        """Return records by their fields, oldest first unless ``newest_first``, at most ``limit``.

        Messages come in the order of their session (``seq``); tasks come with their steps.
        Summaries of a session come by version, those of the whole session before those of its
        agents. ``query.sources`` finds those that cover any of these messages.
        """
        ...

    def match(self, query: Query, near: Sequence[Key] = ()) -> Candidates:
        """Return what the words of ``query.text`` find, and what stands beside it.

        The answer holds

        * the best ``query.limit`` records of each kind by words (BM25; any word is enough)
          that all conditions of the query allow,
        * the records of ``near``, which another index found, as far as the conditions allow
          them; unknown ones are left out,
        * of the best 100 by words and the first 100 of ``near``, the messages of the same
          session that were said up to two places before and behind. They lie in the query's
          scope; where another of its conditions does not allow them, they are not eligible.

        A text without a searchable word finds nothing by words. The statistics of BM25 are
        those of all the user's records at this moment.
        """
        ...

    def delete(self, query: Query) -> Mapping[Kind, int]:
        """Remove what `find` would return, with its text index and vectors; return counts by kind.

        A summary does not go with its messages: it may be all that is meant to stay of them.
        """
        ...

    def count(self, query: Query) -> Mapping[str, int]:
        """Return how many records of each kind lie in the scope, and ``vectors_pending``."""
        ...

    def close(self) -> None:
        """Release the database. Closing twice is fine; using it afterwards raises `Closed`."""
        ...
