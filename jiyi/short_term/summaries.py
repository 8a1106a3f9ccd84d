"""The stored summaries of sessions, their versions, and the messages not summarised yet."""

from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import cast

from jiyi.clock import Clock, utc_now
from jiyi.compression.summarize import Summarize
from jiyi.errors import BadScope, InputError, NotFound
from jiyi.records import Block, Message, Query, Scope, Summary
from jiyi.short_term.summary import Summarized
from jiyi.storage.store import Store
from jiyi.text import TokenCounter

__all__ = ["Summaries", "next_version", "summary_block"]

_MAX_ROWS = 10_000  # that a query may return

_CHANGED_MESSAGE = "{} was forgotten meanwhile or never there; nothing was stored, fold again from latest()"


@dataclass(frozen=True, slots=True)
class Summaries:
    """Stores the running summaries of sessions, in versions that build on each other.

    A scope with an agent has a summary of that agent's messages, one without has a summary of the
    whole session; the two are independent. Every method raises `BadScope` for a scope without a
    session. Guarantees:

    - When `add` returns, the summary is on disk, and every other process sees it.
    - Version numbers are unique: of two concurrent folds one is stored, and the other gets it.
    - No version covers a message that was forgotten before it was stored. Forgetting a message
      later removes the versions that cover it, see `jiyi.long_term.forgetting`.
    - Messages removed in another way, such as by the forget gate, leave their summary in place.
    """

    store: Store  # where summaries and messages are stored
    _: KW_ONLY
    clock: Clock = utc_now  # where "now" comes from

    def latest(self, scope: Scope) -> Summary | None:
        """Return the newest summary of a session, None if nothing was folded yet; one index read."""
        found = self._find(scope, newest_first=True, limit=1)
        # Without an agent, the query also finds those of agents; the whole session's comes first.
        return found[0] if found and found[0].scope == scope else None

    def versions(self, scope: Scope) -> list[Summary]:
        """Return all versions of a session's summary, oldest first; at most 10,000."""
        return [summary for summary in self._find(scope, limit=_MAX_ROWS) if summary.scope == scope]

    def add(self, scope: Scope, made: Summarized, after: Summary | None = None) -> Summary:
        """Store the next version of a summary, and return the version that is then the newest.

        That is the new one, unless another process added or removed versions since ``after``, the version it
        builds on, was read: then nothing is stored, and the other version is returned; fold again from it if
        needed.

        Raises:
            NotFound: a message it covers, or every version, was forgotten meanwhile, so the text may contain
                forgotten words. Nothing was stored: fold again from `latest`.
            InputError: it is no valid summary, or covers less than ``after``.
            StorageError: the database failed.
        """
        new = next_version(scope, made, after)
        if after and new.upto_seq < after.upto_seq:
            raise InputError(
                f"upto_seq={new.upto_seq} lies before {after.upto_seq}, where the version it builds on ends"
            )
        dated = replace(new, created_at=self.clock())
        return self.store.together(lambda: self._put_version(dated), repeatable=True)

    def unfolded(
        self, scope: Scope, after_seq: int = -1, *, upto_seq: int | None = None, limit: int = 1_000
    ) -> list[Message]:
        """Return the messages of a session that are not in a summary yet, in order.

        ``after_seq`` is the summary's ``upto_seq``, -1 without a summary. At most ``limit``, from
        1 to 10,000; with an agent in the scope, only that agent's messages.
        """
        query = Query(
            scope=_session_scope(scope),
            kinds=("message",),
            after_seq=after_seq,
            before_seq=None if upto_seq is None else upto_seq + 1,
            limit=limit,
        )
        return cast("list[Message]", self.store.find(query))

    def _put_version(self, new: Summary) -> Summary:
        """Store a version if the newest is the one it builds on; otherwise return the newest."""
        latest = self.latest(new.scope)
        if latest is None and new.previous is not None:
            raise NotFound(_CHANGED_MESSAGE.format("the summary it builds on"))
        if latest is not None and latest.id != new.previous:
            return latest
        self._check_covered_messages(new)
        return cast("Summary", self.store.put([new])[0])

    def _find(self, scope: Scope, *, newest_first: bool = False, limit: int) -> list[Summary]:
        query = Query(scope=_session_scope(scope), kinds=("summary",), newest_first=newest_first, limit=limit)
        return cast("list[Summary]", self.store.find(query))

    def _check_covered_messages(self, new: Summary) -> None:
        user = Scope(user_id=new.scope.user_id, session_id=new.scope.session_id)
        for start in range(0, len(new.covers), _MAX_ROWS):
            ids = new.covers[start : start + _MAX_ROWS]
            if self.store.count(Query(scope=user, kinds=("message",), ids=ids))["message"] < len(ids):
                raise NotFound(_CHANGED_MESSAGE.format("a message it covers"))


def next_version(scope: Scope, made: Summarized, after: Summary | None) -> Summary:
    """Return the version that follows ``after``, not stored yet and so without a date."""
    assert made.upto_seq is not None, "stored messages have their place"
    fields = asdict(made) | {"covers": tuple(dict.fromkeys(made.covers))}
    previous, version = (after.id, after.version + 1) if after else (None, 1)
    return Summary(scope=_session_scope(scope), version=version, previous=previous, **fields)


def _session_scope(scope: Scope) -> Scope:
    if scope.session_id is None:
        raise BadScope("a summary is of a session; give session_id")
    return scope


def summary_block(summary: Summary | None, most: int, counter: TokenCounter) -> Block | None:
    """Return the summary as a block, shortened to its main points if it is over ``most`` tokens."""
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
