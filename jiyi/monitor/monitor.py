"""The monitor: it records windows, replies, summaries and steps, and returns their figures."""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from jiyi.clock import Clock, utc_now
from jiyi.errors import InputError, SettingsError
from jiyi.forks import free_after_fork
from jiyi.monitor.drift import Drift, Step, find_drift, last_run
from jiyi.monitor.figures import Alert, Gauges, Series, SessionKey, Thresholds, Usage, find_alerts
from jiyi.monitor.hits import RETRIEVED_SECTIONS, find_hits
from jiyi.records import Block, Message, Window
from jiyi.text import TokenCounter, counter_for

__all__ = ["OTHER", "ContextMonitor", "Figure", "Listener"]

OTHER = "other"
"""The task type that counts all task types after the first 50."""

Figure = Literal["context_tokens", "build_milliseconds", "output_tokens", "prompt_tokens"]
"""The figures that listeners receive."""

Listener = Callable[[Figure, float, str], None]
"""Called as ``listener(figure, value, task_type)``; must be quick and must not raise."""

_MAX_TYPES = 50
_MAX_SESSIONS = 500
_MAX_STEPS = 50  # of a session
_MAX_PENDING = 100  # replies not compared with their window so far
_MAX_STEP_CHARS = 1_000  # of a step
_NO_QUESTION = {"role": "user", "content": ""}
_ACTIVE_PERIOD = timedelta(minutes=30)  # a run without a step in this time is over


_PendingReply = tuple[str, str, tuple[Block, ...], str]  # task type, question and blocks; the reply to them


@dataclass(slots=True)
class _Session:
    """The last window of a session, until its reply comes, and its current run."""

    task_type: str = ""  # of its last window
    question: str = ""  # of its last window
    blocks: tuple[Block, ...] = ()  # of its last window, until the reply comes
    reserve: int = 0  # tokens that its last window kept free for the reply
    reply: int | None = None  # hash of the last reply to that window
    steps: deque[tuple[str, Step]] = field(default_factory=lambda: deque(maxlen=_MAX_STEPS))
    stepped_at: datetime | None = None  # the last step
    drift: Drift | None = None  # as of the last step; None: not computed yet


@dataclass(eq=False, repr=False, kw_only=True)
class ContextMonitor:
    """Records windows and what came of them.

    - `window`, `reply`, `summarised` and `step` only record their arguments, in some microseconds;
      replies are compared with windows when figures are read.
    - Counts and sums are of everything since the start or the last `reset`; means, percentiles and rates are
      of the newest `keep` values of each figure.
    - Memory is bounded: `keep` values of each figure for at most 50 task types (later ones are counted as
      `OTHER`); 50 steps and the blocks of the last window for each of the 500 sessions used last; 100
      replies to compare. Of more the oldest are not compared, and `Gauges.unjudged` counts them.
    - Sessions have the ids of the verbs of a memory, separate for each user.
    - Nothing is stored or sent.
    - Safe to share between threads.

    SettingsError: ``keep`` is below 1.
    """

    thresholds: Thresholds = field(default_factory=Thresholds)  # of `alerts`
    clock: Clock = utc_now  # decides which runs are active
    keep: int = 1000  # values kept of each figure
    counter: TokenCounter = field(default_factory=counter_for)  # for replies without usage
    user_id: str = ""  # of sessions by default; the monitor of a memory has the user of `jiyi.open`

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise SettingsError(f"keep must be at least 1, not {self.keep}")
        self._lock = free_after_fork(threading.Lock())  # guards what is recorded
        self._catching_up = free_after_fork(threading.Lock())  # one thread compares at a time
        self._listeners: tuple[Listener, ...] = ()
        self.reset()

    def window(
        self,
        window: Window,
        *,
        session_id: str = "",
        task_type: str = "",
        milliseconds: float | None = None,
        user_id: str | None = None,
    ) -> None:
        """Record a window that was built in so many milliseconds for a session.

        Its retrieved blocks are kept until the reply comes; the figures of ``task_type`` include it.
        """
        report = window.report
        asked = (m for m in reversed(window.messages) if m.get("role") == "user")
        question = Message.from_openai(next(asked, _NO_QUESTION)).text
        share = report.tokens / report.budget.max_input_tokens
        with self._lock:
            task_type = self._counted_type(task_type)
            for series in self._series_of(task_type):
                series.add({"tokens": report.tokens, "share": share, "milliseconds": milliseconds})
                series.sections.update({name: tokens for name, tokens in report.sections.items() if tokens})
                series.saved.update(report.saved)
            session = self._session(session_id, user_id)
            session.task_type, session.question = task_type, question
            session.blocks = tuple(block for block in window.blocks if block.section in RETRIEVED_SECTIONS)
            session.reserve = report.budget.max_output_tokens
            session.reply = None
        self._notify("context_tokens", report.tokens, task_type)
        if milliseconds is not None:
            self._notify("build_milliseconds", milliseconds, task_type)

    def reply(
        self, session_id: str, text: str, *, usage: object | None = None, user_id: str | None = None
    ) -> None:
        """Record the reply to the last window of a session, "" if it only called tools, and its usage.

        The first reply with text is compared with the blocks of that window; of later ones only the tokens
        count. The same text again is the same reply, of which only the prompt is recorded: a memory records
        every reply saved in it. So pass a reply with its usage before it is saved. ``usage`` is an argument
        of `Usage.of`; without it the tokens of the text are counted.
        """
        counts = Usage() if usage is None else Usage.of(usage)
        tokens = counts.completion_tokens
        count = self.counter.count_text(text) if tokens is None else tokens
        text_hash = hash(text.strip()) if text.strip() else None
        with self._lock:
            session = self._session(session_id, user_id)
            task_type = self._counted_type(session.task_type)
            repeated = text_hash is not None and text_hash == session.reply
            figures: dict[str, float | None] = {"prompt_tokens": counts.prompt_tokens}
            if not repeated:
                share = count / session.reserve if session.reserve else None
                figures |= {"output_tokens": count, "output_share": share}
            if counts.prompt_tokens and counts.cached_tokens is not None:
                figures["cached_share"] = counts.cached_tokens / counts.prompt_tokens
            for series in self._series_of(task_type):
                series.add(figures)
            self._count("cached_tokens", task_type, counts.cached_tokens or 0)
            session.reply = text_hash
            if session.blocks and text_hash is not None:
                if len(self._pending) == _MAX_PENDING:
                    self._count("unjudged", self._pending.popleft()[0])
                self._pending.append((task_type, session.question, session.blocks, text))
                session.blocks = ()
        if not repeated:
            self._notify("output_tokens", count, task_type)
        if counts.prompt_tokens is not None:
            self._notify("prompt_tokens", counts.prompt_tokens, task_type)

    def summarised(self, session_id: str = "", *, task_type: str = "", user_id: str | None = None) -> None:
        """Record that a summary was triggered; the task type is that of the session by default."""
        with self._lock:
            session = self._sessions.get(self._key(session_id, user_id), _Session())
            self._count("summaries", self._counted_type(task_type or session.task_type))

    def step(self, session_id: str, text: str, ok: bool = True, *, user_id: str | None = None) -> None:
        """Record a step of a run, such as a tool call, of which 1,000 characters are kept, and how it went.

        The goal of the run is the question of the last window of the session.
        """
        with self._lock:
            session = self._session(session_id, user_id)
            session.steps.append((session.question, Step(text=text[:_MAX_STEP_CHARS], ok=ok)))
            session.stepped_at, session.drift = self.clock(), None
            task_type = self._counted_type(session.task_type)
            self._count("steps", task_type)
            self._count("failed_steps", task_type, int(not ok))

    @property
    def task_types(self) -> tuple[str, ...]:
        """The task types seen, in the order they came."""
        with self._lock:
            return tuple(self._types)

    def gauges(self, task_type: str | None = None) -> Gauges:
        """Return the figures of a task type, or of all together; pending replies are compared first.

        InputError: no window, reply, summary or step of this task type was seen.
        """
        self._catch_up()
        with self._lock:
            if task_type is not None and task_type not in self._types:
                known = ", ".join(map(repr, self._types)) or "none yet"
                raise InputError(f"no figures for the task type {task_type!r}; there are {known}")
            return self._gauges_of(task_type)

    def by_task_type(self) -> tuple[Gauges, ...]:
        """Return the figures of every task type at one moment."""
        self._catch_up()
        with self._lock:
            return tuple(self._gauges_of(task_type) for task_type in self._types)

    def drift(self, session_id: str, *, user_id: str | None = None) -> Drift | None:
        """Return the drift of the run of a session, None without a step in 30 minutes."""
        self._catch_up()
        with self._lock:
            return self._drifts().get(self._key(session_id, user_id), ("", None))[1]

    def alerts(self) -> tuple[Alert, ...]:
        """Return the figures and runs that passed a threshold, critical ones first."""
        figures = self.by_task_type()
        with self._lock:
            runs = self._drifts()
        return find_alerts(figures, runs, self.thresholds)

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with each value from now on, in the thread that records it."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def reset(self) -> None:
        """Forget all figures and sessions; listeners stay."""
        with self._lock:
            self._total = Series(self.keep)
            self._types: dict[str, Series] = {}
            self._sessions: OrderedDict[SessionKey, _Session] = OrderedDict()  # used last at the end
            self._pending: deque[_PendingReply] = deque()

    def _key(self, session_id: str, user_id: str | None) -> SessionKey:
        return self.user_id if user_id is None else user_id, session_id

    def _session(self, session_id: str, user_id: str | None) -> _Session:
        """Return a session; a new one replaces the one used longest ago if there are too many."""
        key = self._key(session_id, user_id)
        session = self._sessions.setdefault(key, _Session())
        self._sessions.move_to_end(key)
        if len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def _active_runs(self) -> list[tuple[SessionKey, _Session]]:
        earliest = self.clock() - _ACTIVE_PERIOD
        sessions = self._sessions.items()
        return [(key, run) for key, run in sessions if run.stepped_at and run.stepped_at >= earliest]

    def _counted_type(self, task_type: str) -> str:
        """Return the name under which a task type is counted, and make sure that it has a series."""
        if task_type not in self._types:
            if len(self._types) >= _MAX_TYPES:
                task_type = OTHER
            self._types.setdefault(task_type, Series(self.keep))
        return task_type

    def _series_of(self, task_type: str) -> tuple[Series, Series]:
        return self._total, self._types[task_type]

    def _count(self, figure: str, task_type: str, more: int = 1) -> None:
        for series in self._series_of(task_type):
            series.counts[figure] += more

    def _notify(self, figure: Figure, value: float, task_type: str) -> None:
        for listener in self._listeners:
            listener(figure, value, task_type)

    def _gauges_of(self, task_type: str | None) -> Gauges:
        series = self._total if task_type is None else self._types[task_type]
        runs = [drift for run_type, drift in self._drifts().values() if task_type in (None, run_type)]
        return series.gauges(task_type, runs)

    def _drifts(self) -> dict[SessionKey, tuple[str, Drift]]:
        """Return task type and drift of the active runs whose drift is known."""
        return {key: (run.task_type, run.drift) for key, run in self._active_runs() if run.drift}

    def _catch_up(self) -> None:
        with self._catching_up:
            with self._lock:
                pending, self._pending = list(self._pending), deque()
                types, total = self._types, self._total
                runs = [(run, list(run.steps)) for _, run in self._active_runs() if run.drift is None]
            for task_type, question, blocks, reply in pending:
                hits = find_hits(question, blocks, reply)
                shown = {"judged": 1, "blocks_shown": len(hits.blocks), "blocks_used": hits.used}
                with self._lock:
                    for series in (total, types[task_type]) if hits.blocks else ():
                        series.hits.append(hits)
                        series.counts.update(shown)
            far, often = self.thresholds.drift.warning, max(int(self.thresholds.failures.warning), 1)
            for session, steps in runs:
                drift = find_drift(*last_run(steps), drifted=far, repeats=often)
                with self._lock:
                    if session.steps[-1] is steps[-1]:  # no step came meanwhile
                        session.drift = drift
