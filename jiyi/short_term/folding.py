"""Folding: older messages of a session go into its stored summary when it is time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jiyi.errors import LLMError, NotFound
from jiyi.records import Message, ReportStep, Scope, Summary
from jiyi.short_term.candidates import Candidates
from jiyi.short_term.summaries import Summaries
from jiyi.short_term.summary import Folded, RunningSummary, Summarized, Summarizer

__all__ = ["Folding", "Standing"]

_PAGE = 500  # messages folded in at a time
_MOST = 10_000  # messages one page may grow to, where a turn is that long


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The summary of a session as it stands, and what was done for that."""

    summary: Summary | None = None  # None where nothing was folded yet
    step: ReportStep | None = None  # what was folded just now
    notes: tuple[str, ...] = ()  # what was not as it should be
    error: LLMError | None = None  # why a model did not write it

    def uncovered(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return those of a session's messages that must be shown beside the summary.

        They are the later ones, and system and pinned messages with what belongs to them.
        """
        if self.summary is None:
            return tuple(messages)
        upto = self.summary.upto_seq
        held = {i for atom in Candidates.of(messages).required for i in atom.indices}
        return tuple(m for i, m in enumerate(messages) if i in held or m.seq is None or m.seq > upto)


class Folding:
    """Keeps the summary of each session up to date.

    Guarantees: nothing is skipped, however much there is to fold; a summary that fails
    changes nothing, and is in the notes; two processes that fold at once leave one summary.

    Args:
        summaries: where they are kept.
        policy: when to fold, and what stays; each call says how large the window is.
        summarize: writes the summary.
        backlog: writes the pages before the last where there is more than one to fold, such as
            for a conversation just imported; without a model it takes milliseconds a page.
    """

    def __init__(
        self, summaries: Summaries, policy: RunningSummary, summarize: Summarizer, *, backlog: Summarizer
    ) -> None:
        self._summaries = summaries
        self._policy = policy
        self._summarize = summarize
        self._backlog = backlog

    def standing(self, scope: Scope) -> Standing:
        """Return the summary as it is; nothing is folded."""
        return Standing(summary=self._summaries.latest(scope))

    def when_due(self, scope: Scope, recent: Sequence[Message], max_tokens: int) -> Standing:
        """Fold if it is time, and return the summary.

        It is time when the messages behind the summary fill the window or are many, see
        `RunningSummary`, or when some of them are not among ``recent`` any more.

        Args:
            scope: user and session, and agent.
            recent: what short-term memory holds of the session, in order.
            max_tokens: size of the window.
        """
        standing = self.standing(scope)
        fresh = standing.uncovered(recent)
        beside = standing.summary.tokens if standing.summary else 0
        policy = replace(self._policy, max_tokens=max_tokens)
        if policy.due(fresh, beside=beside) or self._lost(scope, standing, fresh):
            return self.fold(scope, standing.summary)
        return standing

    def fold(self, scope: Scope, after: Summary | None = None) -> Standing:
        """Fold everything older than the last turns into the summary, whether it is time or not.

        ``after`` is the summary that stands, if the caller knows it.
        """
        summary = after or self._summaries.latest(scope)
        messages, before, notes, limit = 0, 0, list[str](), _PAGE
        while True:
            upto = summary.upto_seq if summary else -1
            page = self._summaries.unfolded(scope, upto, limit=limit)
            last = len(page) < limit
            write = self._summarize if last else self._backlog
            folded = self._policy.fold(page, summary, write, force=True)
            notes += [folded.note] if folded.note and (folded.changed or page) else []
            if folded.changed:
                stored = self._store(scope, folded, summary)
                if stored is None:
                    notes.append("what was being summarised changed meanwhile; the summary stays as it was")
                    break
                messages += len(folded.summary.covers) if folded.summary else 0
                before += sum(self._policy.counter.count(one.message) for one in folded.dropped)
                summary, limit = stored, _PAGE
            elif not last and limit < _MOST:
                limit = min(4 * limit, _MOST)
                continue
            if last or not folded.changed:
                break
        step = _step(messages, before, summary) if messages and summary else None
        return Standing(summary=summary, step=step, notes=tuple(dict.fromkeys(notes)), error=folded.error)

    def _lost(self, scope: Scope, standing: Standing, fresh: Sequence[Message]) -> bool:
        """Say whether messages left the session's window without being in the summary."""
        upto = standing.summary.upto_seq if standing.summary else -1
        held = {i for atom in Candidates.of(fresh).required for i in atom.indices}
        oldest = next((m.seq for i, m in enumerate(fresh) if i not in held and m.seq is not None), None)
        if oldest is None:
            return False
        between = sum(1 for m in fresh if m.seq is not None and upto < m.seq < oldest)
        if oldest - upto - 1 <= between:
            return False
        there = self._summaries.unfolded(scope, upto, upto_seq=oldest - 1, limit=between + 1)
        return len(there) > between

    def _store(self, scope: Scope, folded: Folded, after: Summary | None) -> Summary | None:
        made = folded.summary
        assert isinstance(made, Summarized), "what was folded is new"
        assert made.upto_seq is not None, "stored messages have their place"
        try:
            return self._summaries.add(
                scope,
                made.text,
                covers=made.covers,
                upto_seq=made.upto_seq,
                method=made.method,
                language=made.language,
                tokens=made.tokens,
                after=after,
            )
        except NotFound:
            return None


def _step(messages: int, before: int, summary: Summary) -> ReportStep:
    return ReportStep(
        what="summarised",
        items=messages,
        tokens_before=before,
        tokens=summary.tokens,
        note=f"{summary.method}; version {summary.version} of the summary",
    )
