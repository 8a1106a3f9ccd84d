"""The stored summaries of sessions, and how older messages are folded into them when it is time."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import cast

from jiyi.clock import Clock, utc_now
from jiyi.compression.summarize import Summarize
from jiyi.errors import BadScope, DatabaseLocked, DiskFull, InputError, LLMError, NotFound, StorageError
from jiyi.records import MAX_LIMIT, Block, Message, Query, ReportStep, Scope, Summary
from jiyi.short_term.policy import Candidates
from jiyi.short_term.sessions import read_messages
from jiyi.short_term.summary import RunningSummary, Summarized, Summarizer
from jiyi.storage import batched
from jiyi.storage.store import Store
from jiyi.text import TokenCounter

__all__ = ["Background", "Summaries", "SummaryState", "SummaryUpdater", "summary_block"]

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
        return [summary for summary in self._find(scope, limit=MAX_LIMIT) if summary.scope == scope]

    def add(self, scope: Scope, made: Summarized, after: Summary | None = None) -> Summary:
        """Store the next version of a summary, and return the version that is then the newest.

        That is the new one, unless another process added or removed versions since ``after``, the version it
        builds on, was read: then nothing is stored; fold again from what is returned if needed.

        Raises `NotFound` if a message it covers, or every version, was forgotten meanwhile, so that the text
        may contain forgotten words (fold again from `latest`), `InputError` for what is no valid summary or
        covers less than ``after``; then nothing was stored.
        """
        new = _next_version(scope, made, after)
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
        places = {"after_seq": after_seq, "before_seq": None if upto_seq is None else upto_seq + 1}
        return read_messages(self.store, _session_scope(scope), limit=limit, **places)

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
        for ids in batched(new.covers, MAX_LIMIT):
            if self.store.count(Query(scope=user, kinds=("message",), ids=tuple(ids)))["message"] < len(ids):
                raise NotFound(_CHANGED_MESSAGE.format("a message it covers"))


def _next_version(scope: Scope, made: Summarized, after: Summary | None) -> Summary:
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


_MAX_RESULTS = 500  # that are not taken yet


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryState:
    """The summary of a session, and what was folded for it."""

    summary: Summary | None = None  # None if nothing was folded yet
    step: ReportStep | None = None  # what was folded just now, or since the last window
    notes: tuple[str, ...] = ()  # problems
    error: LLMError | StorageError | None = None  # why it was not written or not stored

    def uncovered(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages to show in addition to the summary: later, system and pinned ones."""
        if self.summary is None:
            return tuple(messages)
        upto, required = self.summary.upto_seq, Candidates.of(messages).required_places
        return tuple(m for i, m in enumerate(messages) if i in required or m.seq is None or m.seq > upto)


class Background:
    """Folds sessions one after the other, in a thread that starts with the first.

    - Each session has at most one fold that waits or runs; further ones are refused meanwhile.
    - The result of a fold is kept until taken; of more than 500 the oldest are dropped.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pending: dict[Scope, Callable[[], SummaryState]] = {}
        self._results: dict[Scope, SummaryState] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(self, scope: Scope, fold: Callable[[], SummaryState]) -> bool:
        """Queue a fold, which must not raise; return whether it was accepted."""
        with self._changed:
            if self._closed or scope in self._pending:
                return False
            self._pending[scope] = fold
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="jiyi-summaries", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return True

    def take(self, scope: Scope) -> SummaryState | None:
        """Return the result of a session's last fold, once."""
        with self._changed:
            return self._results.pop(scope, None)

    def wait(self, scope: Scope | None = None) -> None:
        """Wait until the fold of a session is done, or all that were put before this call."""
        with self._changed:
            folds = {key: fold for key, fold in self._pending.items() if scope in (None, key)}
            self._changed.wait_for(
                lambda: self._closed or not any(self._pending.get(key) is fold for key, fold in folds.items())
            )

    def close(self, timeout: float = 5.0) -> None:
        """Refuse new folds, drop the waiting ones, and wait ``timeout`` seconds for the running one."""
        with self._changed:
            self._closed = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(timeout)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._pending)
                if self._closed:
                    return
                scope, fold = next(iter(self._pending.items()))
            result = fold()
            with self._changed:
                self._results[scope] = result
                if len(self._results) > _MAX_RESULTS:
                    del self._results[next(iter(self._results))]
                del self._pending[scope]
                self._changed.notify_all()


_PAGE_SIZE = 500  # messages folded in at a time, unless a turn is longer
_WRITING_NOTE = "a language model is writing the summary; until it is there, the window shows an extract"


@dataclass(frozen=True, slots=True)
class SummaryUpdater:
    """Keeps the summary of each session up to date.

    Guarantees: no message is skipped, however much there is to fold; a summary that fails changes nothing and
    is in the notes; two processes that fold at once leave one summary.

    With ``background`` a window never waits for ``summarize``: it writes in a thread, and until its summary
    is stored the window shows what ``backlog`` makes of the same messages, which is not stored. The result is
    in the next state. A summary not written when the process ends is written for a later window.
    """

    summaries: Summaries
    policy: RunningSummary  # when to fold, and what stays; each call gives the size of the window
    summarize: Summarizer  # writes the summary
    _: KW_ONLY
    # Writes all pages but the last if there are several to fold, such as after an import;
    # without a model it takes milliseconds a page.
    backlog: Summarizer
    background: Background | None = None  # runs ``summarize``; None: callers wait

    def current_state(self, scope: Scope) -> SummaryState:
        """Return the stored summary without folding anything."""
        return SummaryState(summary=self.summaries.latest(scope))

    def fold_if_due(self, scope: Scope, recent: Sequence[Message], max_tokens: int) -> SummaryState:
        """Fold if it is time, and return the summary.

        It is time when the messages after the summary fill a window of ``max_tokens`` or are many,
        see `RunningSummary`, or when some are not in ``recent``, those of short-term memory.
        """
        finished = self.background.take(scope) if self.background else None
        state = self._fold_if_due(scope, recent, max_tokens)
        if finished is None:
            return state
        notes = tuple(dict.fromkeys([*finished.notes, *state.notes]))
        return replace(state, step=state.step or finished.step, notes=notes)

    def fold(self, scope: Scope) -> SummaryState:
        """Fold everything older than the last turns now, after any fold of this session that runs."""
        if self.background is not None:
            self.background.wait(scope)
        return self._fold(scope, self.summaries.latest(scope))

    def flush(self) -> None:
        """Wait until all background folds are stored or have failed."""
        if self.background is not None:
            self.background.wait()

    def close(self) -> None:
        """End the background work: a running fold has some seconds to finish, others do not start."""
        if self.background is not None:
            self.background.close()

    def _fold_if_due(self, scope: Scope, recent: Sequence[Message], max_tokens: int) -> SummaryState:
        state = self.current_state(scope)
        uncovered = state.uncovered(recent)
        tokens = state.summary.tokens if state.summary else 0
        policy = replace(self.policy, max_tokens=max_tokens)
        if not policy.due(uncovered, more_tokens=tokens) and not self._has_uncovered(scope, state, uncovered):
            return state
        folded = self._fold(scope, state.summary, extract=self.background is not None)
        summary = folded.summary
        # What was stored has a date.
        if self.background is None or summary is None or summary.created_at is not None:
            return folded
        self.background.put(scope, lambda: self._fold_in_background(scope, summary.previous))
        return replace(folded, notes=(*folded.notes, _WRITING_NOTE))

    def _fold_in_background(self, scope: Scope, after: str | None) -> SummaryState:
        """Fold, unless another process already did; a failure is in the notes."""
        try:
            latest = self.summaries.latest(scope)
            is_stale = (latest.id if latest else None) != after
            return SummaryState() if is_stale else self._fold(scope, latest)
        except Exception as error:  # a summarizer of the user may raise anything
            return SummaryState(notes=(f"nothing was summarised: {error}",))

    def _fold(self, scope: Scope, summary: Summary | None, *, extract: bool = False) -> SummaryState:
        """Fold in pages; with ``extract`` the last page is not stored, and no model is asked."""
        count, before, notes, limit = 0, 0, list[str](), _PAGE_SIZE
        unsaved: Summary | None = None
        failed: StorageError | None = None
        while True:
            upto = summary.upto_seq if summary else -1
            page = self.summaries.unfolded(scope, upto, limit=limit)
            last = len(page) < limit
            write = self.summarize if last and not extract else self.backlog
            folded = self.policy.fold(page, summary, write, force=True)
            notes += [folded.note] if folded.note and (folded.changed or page) else []
            if isinstance(summarized := folded.summary, Summarized):
                if last and extract:
                    unsaved = _next_version(scope, summarized, summary)
                    break
                try:
                    stored = self.summaries.add(scope, summarized, summary)
                except NotFound:
                    notes.append("what was being summarised changed meanwhile; the summary stays as it was")
                    break
                except (DiskFull, DatabaseLocked) as error:  # a window needs only to read
                    notes.append(f"the summary was not stored: {error}")
                    unsaved, failed = _next_version(scope, summarized, summary), error
                    break
                count += len(summarized.covers)
                before += sum(self.policy.counter.count(drop.message) for drop in folded.dropped)
                summary, limit = stored, _PAGE_SIZE
            elif not last and limit < MAX_LIMIT:
                limit = min(4 * limit, MAX_LIMIT)
                continue
            if last or not folded.changed:
                break
        step = None
        if count and summary:
            note, tokens = f"{summary.method}; version {summary.version} of the summary", summary.tokens
            step = ReportStep(what="summarised", items=count, tokens_before=before, tokens=tokens, note=note)
        unique = tuple(dict.fromkeys(notes))
        return SummaryState(summary=unsaved or summary, step=step, notes=unique, error=failed or folded.error)

    def _has_uncovered(self, scope: Scope, state: SummaryState, shown: Sequence[Message]) -> bool:
        """Say whether messages are neither in the session's window nor in the summary."""
        upto = state.summary.upto_seq if state.summary else -1
        required = Candidates.of(shown).required_places
        oldest = next((m.seq for i, m in enumerate(shown) if i not in required and m.seq is not None), None)
        if oldest is None:
            return False
        between = sum(1 for m in shown if m.seq is not None and upto < m.seq < oldest)
        if oldest - upto - 1 <= between:
            return False
        return len(self.summaries.unfolded(scope, upto, upto_seq=oldest - 1, limit=between + 1)) > between
