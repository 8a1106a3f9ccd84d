"""The monitor: it watches windows, replies, summaries and steps, and says what they come to."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from jiyi.clock import Clock, utc_now
from jiyi.embeddings import Embedder
from jiyi.errors import InputError, SettingsError
from jiyi.monitor.alerts import find_alerts
from jiyi.monitor.drift import Drift, Step, find_drift
from jiyi.monitor.gauges import Alert, Gauges, Thresholds
from jiyi.monitor.hits import Judge, find_hits
from jiyi.monitor.series import Series
from jiyi.monitor.sessions import Session, Sessions, last_run, question_of
from jiyi.records import Block, Window
from jiyi.text import TokenCounter, counter_for

__all__ = ["OTHER", "ContextMonitor", "Figure", "Listener"]

OTHER = "other"
"""The task type under which those are counted that come when there are 50 already."""

Figure = Literal["context_tokens", "build_milliseconds", "output_tokens"]
"""What a listener is told about."""

Listener = Callable[[Figure, float, str], None]
"""Called as ``listener(figure, value, task_type)``; must be quick and must not raise."""

_MOST_TYPES = 50
_MOST_WAITING = 100  # replies that wait to be compared with their window
_MOST_STEP_CHARS = 1_000  # of a step that are kept
_ACTIVE = timedelta(minutes=30)  # a run without a step for longer is over


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A reply to be compared with what its window showed."""

    task_type: str
    question: str
    blocks: tuple[Block, ...]
    reply: str


class ContextMonitor:
    """Watches what goes into windows and what comes of it.

    - `window`, `reply`, `summarised` and `step` only note what they are given, some
      microseconds each; the comparing is done when someone asks for figures.
    - Counts and sums are exact. Means, percentiles and rates are of the newest `keep`
      values of each figure, and exact for those.
    - Memory is bounded: `keep` values of each figure for at most 50 task types (what comes
      later is counted as `OTHER`); of the 500 sessions used last, the blocks of a window
      that waits for its reply and 50 steps; 100 replies that wait to be compared. Of more
      waiting replies the oldest are not compared, and `Gauges.unjudged` says how many.
    - Nothing is written anywhere, and nothing is sent.
    - Safe to share between threads.

    Args:
        thresholds: when `alerts` speaks up.
        clock: a run without a step for 30 minutes by it is over.
        keep: values kept of each figure.
        judge: tells which retrieved blocks a reply used; by shared words by default.
        embedder: makes the drift of runs see what is said in other words; it is asked
            when someone asks for figures, once for each run that has new steps.
        counter: counts the tokens of replies whose number is not given.

    Raises:
        SettingsError: ``keep`` is below 1.
    """

    def __init__(
        self,
        *,
        thresholds: Thresholds = Thresholds(),  # noqa: B008
        clock: Clock = utc_now,
        keep: int = 1000,
        judge: Judge = find_hits,
        embedder: Embedder | None = None,
        counter: TokenCounter | None = None,
    ) -> None:
        if keep < 1:
            raise SettingsError(f"keep must be at least 1, not {keep}")
        self._thresholds = thresholds
        self._clock = clock
        self._keep = keep
        self._judge = judge
        self._embedder = embedder
        self._counter = counter or counter_for()
        self._lock = threading.Lock()  # what is noted
        self._catching_up = threading.Lock()  # one comparing at a time
        self._listeners: tuple[Listener, ...] = ()
        self.reset()

    def window(
        self, window: Window, *, task_type: str = "", session_id: str = "", milliseconds: float | None = None
    ) -> None:
        """Note a window that was built.

        Args:
            window: the window; its blocks are kept until the reply comes.
            task_type: whose figures it belongs to.
            session_id: the conversation, so that a reply finds its window; where users
                share these ids, put the user in front.
            milliseconds: what building it took.
        """
        report = window.report
        question = question_of(window.messages)
        with self._lock:
            task_type = self._known(task_type)
            for series in (self._all, self._types[task_type]):
                series.window(report, milliseconds)
            session = self._sessions.of(session_id)
            session.task_type, session.question, session.blocks = task_type, question, window.blocks
            session.reserve = report.budget.max_output_tokens
        self._tell("context_tokens", report.tokens, task_type)
        if milliseconds is not None:
            self._tell("build_milliseconds", milliseconds, task_type)

    def reply(self, text: str, *, session_id: str = "", output_tokens: int | None = None) -> None:
        """Note the reply to the session's last window.

        The first reply to a window is compared with what the window showed; a further one
        counts its tokens only.

        Args:
            text: what the model answered.
            session_id: as given to `window`.
            output_tokens: as the endpoint counted; counted here where it is left out.
        """
        tokens = self._counter.count_text(text) if output_tokens is None else output_tokens
        with self._lock:
            session = self._sessions.of(session_id)
            task_type = self._known(session.task_type)
            for series in (self._all, self._types[task_type]):
                series.reply(tokens, session.reserve)
            if session.blocks:
                if len(self._waiting) == _MOST_WAITING:
                    for series in (self._all, self._types[self._waiting.popleft().task_type]):
                        series.unjudged += 1
                self._waiting.append(_Waiting(task_type, session.question, session.blocks, text))
                session.blocks = ()
        self._tell("output_tokens", tokens, task_type)

    def summarised(self, *, task_type: str = "", session_id: str = "") -> None:
        """Note that a summary was triggered; the task type is the session's where it is left out."""
        with self._lock:
            kind = self._known(task_type or self._sessions.task_type(session_id))
            for series in (self._all, self._types[kind]):
                series.summaries += 1

    def step(self, session_id: str, text: str, ok: bool = True) -> None:
        """Note a step of a run; its goal is the question of the session's last window.

        Args:
            session_id: as given to `window`.
            text: what was done, such as the tool call; its first 1,000 characters are kept.
            ok: whether it went well.
        """
        now = self._clock()
        taken = Step(text=text[:_MOST_STEP_CHARS], ok=ok)
        with self._lock:
            session = self._sessions.of(session_id)
            session.steps.append((session.question, taken))
            session.stepped_at, session.drift = now, None
            for series in (self._all, self._types[self._known(session.task_type)]):
                series.steps += 1
                series.failed_steps += not ok

    @property
    def task_types(self) -> tuple[str, ...]:
        """The task types seen, in the order they came."""
        with self._lock:
            return tuple(self._types)

    def gauges(self, task_type: str | None = None) -> Gauges:
        """Return the figures of a task type, or of all together.

        Compares the replies that wait first: some two milliseconds for each thousand
        characters their windows recalled.

        Raises:
            InputError: no window, reply, summary or step of this task type was seen.
        """
        self._catch_up()
        with self._lock:
            if task_type is not None and task_type not in self._types:
                known = ", ".join(map(repr, self._types)) or "none yet"
                raise InputError(f"no figures for the task type {task_type!r}; there are {known}")
            return self._read(task_type)

    def by_task_type(self) -> tuple[Gauges, ...]:
        """Return the figures of every task type, all as of one moment."""
        self._catch_up()
        with self._lock:
            return tuple(self._read(task_type) for task_type in self._types)

    def drift(self, session_id: str) -> Drift | None:
        """Return how far a session's run has moved from its goal; None without a step in 30 minutes."""
        self._catch_up()
        with self._lock:
            return dict(self._drifts()).get(session_id, ("", None))[1]

    def alerts(self) -> tuple[Alert, ...]:
        """Return what passed its threshold, by task type and by run; the critical first."""
        figures = self.by_task_type()
        with self._lock:
            runs = dict(self._drifts())
        return find_alerts(figures, runs, self._thresholds)

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with each value from now on, in the thread that noted it."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def reset(self) -> None:
        """Forget all figures and sessions; listeners stay."""
        with self._lock:
            self._all = Series(self._keep)
            self._types: dict[str, Series] = {}
            self._sessions = Sessions()
            self._waiting: deque[_Waiting] = deque()

    def _known(self, task_type: str) -> str:
        """Return the name a task type is counted under, which has a series from now on."""
        if task_type not in self._types:
            if len(self._types) >= _MOST_TYPES:
                task_type = OTHER
            self._types.setdefault(task_type, Series(self._keep))
        return task_type

    def _tell(self, figure: Figure, value: float, task_type: str) -> None:
        for listener in self._listeners:
            listener(figure, value, task_type)

    def _read(self, task_type: str | None) -> Gauges:
        series = self._all if task_type is None else self._types[task_type]
        runs = [drift for _, (kind, drift) in self._drifts() if task_type in (None, kind)]
        return series.gauges(task_type, [run.score for run in runs], sum(run.drifting for run in runs))

    def _drifts(self) -> list[tuple[str, tuple[str, Drift]]]:
        """Return task type and drift of the active runs, as far as they were looked at."""
        running = self._sessions.running(self._clock() - _ACTIVE)
        return [(name, (one.task_type, one.drift)) for name, one in running if one.drift]

    def _catch_up(self) -> None:
        """Compare the replies that wait, and look at the runs that have new steps."""
        with self._catching_up:
            with self._lock:
                waiting, self._waiting = list(self._waiting), deque()
                types, everything = self._types, self._all
                running = self._sessions.running(self._clock() - _ACTIVE)
                runs = [(one, list(one.steps)) for _, one in running if one.drift is None]
            for item in waiting:
                hits = self._judge(item.question, item.blocks, item.reply)
                with self._lock:
                    for series in (everything, types[item.task_type]):
                        series.judged(hits)
            for session, steps in runs:
                self._look_at(session, steps)

    def _look_at(self, session: Session, steps: list[tuple[str, Step]]) -> None:
        goal, run = last_run(steps)
        limits = self._thresholds
        found = find_drift(
            goal,
            run,
            embedder=self._embedder,
            drifted=limits.drift.warning,
            repeats=max(int(limits.failures.warning), 1),
        )
        with self._lock:
            if session.steps[-1] is steps[-1]:  # no step came meanwhile
                session.drift = found
