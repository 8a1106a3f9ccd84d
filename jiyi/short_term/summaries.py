"""The stored summaries of sessions: the current one, its versions, and what is not in it yet."""

from dataclasses import replace
from typing import cast

from jiyi.clock import Clock, utc_now
from jiyi.compression.summarize import Summarize
from jiyi.errors import BadScope, InputError, NotFound
from jiyi.records import Block, Message, Query, Scope, Summary
from jiyi.short_term.summary import Summarized
from jiyi.storage.store import Store
from jiyi.text import TokenCounter

__all__ = ["Summaries", "next_version", "summary_block"]

_MOST = 10_000  # what one question may return

_GONE = "{} was forgotten meanwhile or never there; nothing was stored, fold again from latest()"


class Summaries:
    """Keeps the running summaries of sessions, in versions that build on each other.

    With an agent in its scope a summary is of that agent's messages, without one of the whole
    session's; the two do not know each other.

    Every method raises `BadScope` for a scope without a session. Guarantees:

    - What `add` returned for is on disk, and what one process adds every other sees at once.
    - There is one version of each number: of two that fold at the same time one comes first,
      and the other is handed that.
    - No version holds a message that was forgotten before it was stored. One that is forgotten
      later takes the versions that hold it along, see `jiyi.long_term.forgetting`.
    - Messages that leave in another way, such as by the forget gate, leave their summary; what
      is said later in that session comes after it.

    Args:
        store: where they are kept, with the messages.
        clock: where "now" comes from.
    """

    def __init__(self, store: Store, *, clock: Clock = utc_now) -> None:
        self._store = store
        self._clock = clock

    def latest(self, scope: Scope) -> Summary | None:
        """Return the summary of a session as it stands, None where nothing was folded yet.

        Cheap, for every window: one look into an index.
        """
        found = self._find(scope, newest_first=True, limit=1)
        # Without an agent any agent's would do; those of the whole session come before them.
        return found[0] if found and found[0].scope == scope else None

    def versions(self, scope: Scope) -> list[Summary]:
        """Return all versions of a session's summary, oldest first; at most 10,000."""
        return [summary for summary in self._find(scope, limit=_MOST) if summary.scope == scope]

    def add(self, scope: Scope, made: Summarized, after: Summary | None = None) -> Summary:
        """Store what was made as the next version, and return the one that stands then.

        That is the new one, unless another process added or took away versions since ``after``
        was read: then nothing is stored, and what is returned stands instead. Its ``id`` is
        then that of no version this caller knows; fold again from it where that matters.

        Args:
            scope: user and session, and agent where it is of one agent's messages.
            made: the summary, with everything that ``after`` says.
            after: the version it builds on, as `latest` gave it; None for the first.

        Raises:
            NotFound: a message it covers is not there any more, or no version at all; what was
                forgotten may be in the text. Nothing was stored: fold again from `latest`.
            InputError: it could be no summary, or goes less far than ``after``.
            StorageError: the database cannot do it.
        """
        new = next_version(scope, made, after)
        if after and new.upto_seq < after.upto_seq:
            raise InputError(
                f"upto_seq={new.upto_seq} lies before {after.upto_seq}, where the version it builds on ends"
            )
        dated = replace(new, created_at=self._clock())
        return self._store.together(lambda: self._put(dated), repeatable=True)

    def unfolded(
        self, scope: Scope, after_seq: int = -1, *, upto_seq: int | None = None, limit: int = 1_000
    ) -> list[Message]:
        """Return the messages of a session after one place and up to another, in order.

        For what a summary does not say yet: ``after_seq`` is its ``upto_seq``, and -1 where
        there is none. At most ``limit``, from 1 to 10,000; with an agent, that agent's messages alone.
        """
        query = Query(
            scope=_of_session(scope),
            kinds=("message",),
            after_seq=after_seq,
            before_seq=None if upto_seq is None else upto_seq + 1,
            limit=limit,
        )
        return cast("list[Message]", self._store.find(query))

    def _put(self, new: Summary) -> Summary:
        """Store a version on top of the one it builds on; where another one stands, return that."""
        standing = self.latest(new.scope)
        if standing is None and new.previous is not None:
            raise NotFound(_GONE.format("the summary it builds on"))
        if standing is not None and standing.id != new.previous:
            return standing
        self._check_there(new)
        return cast("Summary", self._store.put([new])[0])

    def _find(self, scope: Scope, *, newest_first: bool = False, limit: int) -> list[Summary]:
        query = Query(scope=_of_session(scope), kinds=("summary",), newest_first=newest_first, limit=limit)
        return cast("list[Summary]", self._store.find(query))

    def _check_there(self, new: Summary) -> None:
        user = Scope(user_id=new.scope.user_id, session_id=new.scope.session_id)
        for start in range(0, len(new.covers), _MOST):
            ids = new.covers[start : start + _MOST]
            if self._store.count(Query(scope=user, kinds=("message",), ids=ids))["message"] < len(ids):
                raise NotFound(_GONE.format("a message it covers"))


def next_version(scope: Scope, made: Summarized, after: Summary | None) -> Summary:
    """Return the version that follows ``after``; without a date, since it is not stored yet."""
    assert made.upto_seq is not None, "stored messages have their place"
    return Summary(
        scope=_of_session(scope),
        text=made.text,
        version=after.version + 1 if after else 1,
        covers=tuple(dict.fromkeys(made.covers)),
        upto_seq=made.upto_seq,
        method=made.method,
        language=made.language,
        tokens=made.tokens,
        previous=after.id if after else None,
    )


def _of_session(scope: Scope) -> Scope:
    if scope.session_id is None:
        raise BadScope("a summary is of a session; give session_id")
    return scope


def summary_block(summary: Summary | None, most: int, counter: TokenCounter) -> Block | None:
    """Return the summary as a block; of one of more than ``most`` tokens its weightiest points."""
    if summary is None:
        return None
    text, note = summary.text, f"version {summary.version}, {summary.method}"
    if summary.tokens > most > 0:
        made = Summarize(max_tokens=most, counter=counter)([], previous=text)
        text, note = made.text, f"{note}; {made.tokens} of its {summary.tokens} tokens"
    if not text:
        return None
    return Block(
        section="summary",
        kind="summary",
        source_id=summary.id,
        text=text,
        tokens=counter.count_text(text),
        created_at=summary.created_at,
        note=note,
    )
