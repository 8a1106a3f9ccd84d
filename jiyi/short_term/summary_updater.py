"""SummaryUpdater: older messages of a session go into its stored summary when it is time."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Generic, TypeVar

from jiyi.errors import LLMError, NotFound
from jiyi.records import Message, ReportStep, Scope, Summary
from jiyi.short_term.policy import Candidates
from jiyi.short_term.summaries import Summaries, next_version
from jiyi.short_term.summary import RunningSummary, Summarized, Summarizer

__all__ = ["Background", "SummaryState", "SummaryUpdater"]

_MOST_RESULTS = 500  # that wait to be taken

_Key = TypeVar("_Key", bound=Hashable)
_Result = TypeVar("_Result")


class Background(Generic[_Key, _Result]):
    """Does pieces of work one after the other, in a thread that starts with the first.

    - Of a key one piece waits or is done at a time; another one is not taken meanwhile.
    - What a piece returned waits for whoever asks under its key; of more than 500 the oldest go.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._pending: OrderedDict[_Key, Callable[[], _Result]] = OrderedDict()
        self._results: OrderedDict[_Key, _Result] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(self, key: _Key, work: Callable[[], _Result]) -> bool:
        """Have a piece of work done, which must not raise; return whether it was taken."""
        with self._changed:
            if self._closed or key in self._pending:
                return False
            self._pending[key] = work
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"jiyi-{self._name}", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return True

    def take(self, key: _Key) -> _Result | None:
        """Return what the last piece of a key returned, once."""
        with self._changed:
            return self._results.pop(key, None)

    def wait(self, key: _Key | None = None) -> None:
        """Wait until the piece of a key is done, or all that were put before this call."""
        with self._changed:
            keys = [*self._pending] if key is None else [key]
            works = {one: self._pending[one] for one in keys if one in self._pending}
            self._changed.wait_for(
                lambda: self._closed or not any(self._pending.get(one) is work for one, work in works.items())
            )

    def close(self, timeout: float = 5.0) -> None:
        """Take nothing more, drop what waits, and wait ``timeout`` seconds for the piece in hand."""
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
                key, work = next(iter(self._pending.items()))
            result = work()
            with self._changed:
                self._results[key] = result
                if len(self._results) > _MOST_RESULTS:
                    self._results.popitem(last=False)
                del self._pending[key]
                self._changed.notify_all()


_PAGE = 500  # messages folded in at a time
_MOST = 10_000  # messages one page may grow to, where a turn is that long
_WRITING = "a language model is writing the summary; until it is there, the window shows an extract"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryState:
    """The summary of a session as it stands, and what was done for that."""

    summary: Summary | None = None  # None where nothing was folded yet
    step: ReportStep | None = None  # what was folded just now, or since the last window
    notes: tuple[str, ...] = ()  # what was not as it should be
    error: LLMError | None = None  # why a model did not write it

    def uncovered(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return those of a session's messages that must be shown with the summary.

        They are the later ones, and system and pinned messages with what belongs to them.
        """
        if self.summary is None:
            return tuple(messages)
        upto, held = self.summary.upto_seq, Candidates.of(messages).held
        return tuple(m for i, m in enumerate(messages) if i in held or m.seq is None or m.seq > upto)


@dataclass(frozen=True, slots=True)
class SummaryUpdater:
    """Keeps the summary of each session up to date.

    Guarantees: nothing is skipped, however much there is to fold; a summary that fails
    changes nothing, and is in the notes; two processes that fold at once leave one summary.

    With ``background`` a window never waits for ``summarize``: that writes in a thread, and until
    its summary is stored the window shows what ``backlog`` makes of the same messages, which is
    stored nowhere. What became of it is in the next standing. What is not written when the
    process ends is folded by a later window.
    """

    summaries: Summaries  # where they are kept
    policy: RunningSummary  # when to fold, and what stays; each call says how large the window is
    summarize: Summarizer  # writes the summary
    _: KW_ONLY
    # Writes the pages before the last where there is more than one to fold, such as for a conversation
    # just imported; without a model it takes milliseconds a page.
    backlog: Summarizer
    background: Background[Scope, SummaryState] | None = None  # where ``summarize`` writes; else one waits

    def standing(self, scope: Scope) -> SummaryState:
        """Return the summary as it is; nothing is folded."""
        return SummaryState(summary=self.summaries.latest(scope))

    def when_due(self, scope: Scope, recent: Sequence[Message], max_tokens: int) -> SummaryState:
        """Fold if it is time, and return the summary.

        It is time when the messages after the summary fill a window of ``max_tokens`` or are many,
        see `RunningSummary`, or when some of them are no longer in short-term memory: ``recent``.
        """
        ended = self.background.take(scope) if self.background else None
        state = self._updated(scope, recent, max_tokens)
        if ended is None:
            return state
        notes = tuple(dict.fromkeys([*ended.notes, *state.notes]))
        return replace(state, step=state.step or ended.step, notes=notes)

    def fold(self, scope: Scope) -> SummaryState:
        """Fold everything older than the last turns into the summary, whether it is time or not.

        A fold of this session that is under way is waited for.
        """
        if self.background is not None:
            self.background.wait(scope)
        return self._fold(scope, self.summaries.latest(scope))

    def flush(self) -> None:
        """Wait until what is being folded in the background is stored, or has failed."""
        if self.background is not None:
            self.background.wait()

    def close(self) -> None:
        """End the background work: the summary in hand has some seconds left, the others are not begun."""
        if self.background is not None:
            self.background.close()

    def _updated(self, scope: Scope, recent: Sequence[Message], max_tokens: int) -> SummaryState:
        state = self.standing(scope)
        fresh = state.uncovered(recent)
        beside = state.summary.tokens if state.summary else 0
        policy = replace(self.policy, max_tokens=max_tokens)
        if not policy.due(fresh, beside=beside) and not self._left_uncovered(scope, state, fresh):
            return state
        if self.background is None:
            return self._fold(scope, state.summary)
        return self._meanwhile(scope, state.summary, self.background)

    def _meanwhile(
        self, scope: Scope, after: Summary | None, background: Background[Scope, SummaryState]
    ) -> SummaryState:
        """Return an extract of what is to be folded, and have the summary written."""
        extract = self._fold(scope, after, extract=True)
        made = extract.summary
        if made is None or made.created_at is not None:
            return extract
        background.put(scope, lambda: self._written(scope, made.previous))
        return replace(extract, notes=(*extract.notes, _WRITING))

    def _written(self, scope: Scope, after: str | None) -> SummaryState:
        """Fold, unless another process did; what goes wrong is in the notes."""
        try:
            latest = self.summaries.latest(scope)
            if (latest.id if latest else None) != after:
                return SummaryState()
            return self._fold(scope, latest)
        except Exception as error:  # parts from outside may raise anything
            return SummaryState(notes=(f"nothing was summarised: {error}",))

    def _fold(self, scope: Scope, summary: Summary | None, *, extract: bool = False) -> SummaryState:
        """Fold in pages; with ``extract`` the last page is not stored, and no model is asked."""
        messages, before, notes, limit = 0, 0, list[str](), _PAGE
        shown: Summary | None = None
        while True:
            upto = summary.upto_seq if summary else -1
            page = self.summaries.unfolded(scope, upto, limit=limit)
            last = len(page) < limit
            write = self.summarize if last and not extract else self.backlog
            folded = self.policy.fold(page, summary, write, force=True)
            notes += [folded.note] if folded.note and (folded.changed or page) else []
            if isinstance(made := folded.summary, Summarized):
                if last and extract:
                    shown = next_version(scope, made, summary)
                    break
                try:
                    stored = self.summaries.add(scope, made, summary)
                except NotFound:
                    notes.append("what was being summarised changed meanwhile; the summary stays as it was")
                    break
                messages += len(made.covers)
                before += sum(self.policy.counter.count(one.message) for one in folded.dropped)
                summary, limit = stored, _PAGE
            elif not last and limit < _MOST:
                limit = min(4 * limit, _MOST)
                continue
            if last or not folded.changed:
                break
        step: ReportStep | None = None
        if messages and summary:
            note = f"{summary.method}; version {summary.version} of the summary"
            step = ReportStep(
                what="summarised", items=messages, tokens_before=before, tokens=summary.tokens, note=note
            )
        told = tuple(dict.fromkeys(notes))
        return SummaryState(summary=shown or summary, step=step, notes=told, error=folded.error)

    def _left_uncovered(self, scope: Scope, state: SummaryState, fresh: Sequence[Message]) -> bool:
        """Say whether messages left the session's window without being in the summary."""
        upto = state.summary.upto_seq if state.summary else -1
        held = Candidates.of(fresh).held
        oldest = next((m.seq for i, m in enumerate(fresh) if i not in held and m.seq is not None), None)
        if oldest is None:
            return False
        between = sum(1 for m in fresh if m.seq is not None and upto < m.seq < oldest)
        if oldest - upto - 1 <= between:
            return False
        there = self.summaries.unfolded(scope, upto, upto_seq=oldest - 1, limit=between + 1)
        return len(there) > between
