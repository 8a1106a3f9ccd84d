"""The monitor: it watches windows, replies, summaries and steps, and says what they come to."""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from jiyi.clock import Clock, utc_now
from jiyi.errors import InputError, SettingsError
from jiyi.forks import free_after_fork
from jiyi.monitor.drift import Drift, Step, find_drift, last_run
from jiyi.monitor.figures import Alert, Gauges, Series, SessionKey, Thresholds, Usage, find_alerts
from jiyi.monitor.hits import RETRIEVED, find_hits
from jiyi.records import Block, Window
from jiyi.text import TokenCounter, counter_for

__all__ = ["OTHER", "ContextMonitor", "Figure", "Listener"]

OTHER = "other"
"""The task type under which those are counted that come when there are 50 already."""

Figure = Literal["context_tokens", "build_milliseconds", "output_tokens", "prompt_tokens"]
"""What a listener is told about."""

Listener = Callable[[Figure, float, str], None]
"""Called as ``listener(figure, value, task_type)``; must be quick and must not raise."""

_MOST_TYPES = 50
_MOST_SESSIONS = 500
_MOST_STEPS = 50  # of a session
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


@dataclass(slots=True)
class _Session:
    """What is known of one session: its last window, until the reply comes, and the run in hand."""

    task_type: str = ""  # of its last window
    question: str = ""  # of its last window
    blocks: tuple[Block, ...] = ()  # of its last window, until the reply comes
    reserve: int = 0  # tokens its last window kept free for the reply
    reply: int | None = None  # hash of the last reply to that window
    steps: deque[tuple[str, Step]] = field(default_factory=lambda: deque(maxlen=_MOST_STEPS))
    stepped_at: datetime | None = None  # the last step
    drift: Drift | None = None  # as of the last step; None: not looked at yet


@dataclass(eq=False, repr=False, kw_only=True)
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
    - Sessions go by the same ids as in the verbs of a memory, each user's by themselves.
    - Nothing is written anywhere, and nothing is sent.
    - Safe to share between threads.

    Raises:
        SettingsError: ``keep`` is below 1.
    """

    thresholds: Thresholds = field(default_factory=Thresholds)  # when `alerts` speaks up
    clock: Clock = utc_now  # a run without a step for 30 minutes by it is over
    keep: int = 1000  # values kept of each figure
    counter: TokenCounter = field(default_factory=counter_for)  # of the tokens of replies that have no number
    # Whose sessions are meant by default; a memory's monitor has the user of `jiyi.open`.
    user_id: str = ""

    def __post_init__(self) -> None:
        """Refuse to keep nothing, and begin."""
        if self.keep < 1:
            raise SettingsError(f"keep must be at least 1, not {self.keep}")
        self._lock = free_after_fork(threading.Lock())  # what is noted
        self._catching_up = free_after_fork(threading.Lock())  # one comparing at a time
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
        """Note a window that was built.

        Args:
            window: the window; what was retrieved for it is kept until the reply comes.
            session_id: the conversation, so that a reply finds its window.
            task_type: whose figures it belongs to.
            milliseconds: what building it took.
            user_id: whose conversation, if not the monitor's.
        """
        report = window.report
        question = _question_of(window.messages)
        with self._lock:
            task_type = self._known(task_type)
            for series in (self._all, self._types[task_type]):
                series.window(report, milliseconds)
            session = self._session(session_id, user_id)
            session.task_type, session.question = task_type, question
            session.blocks = tuple(block for block in window.blocks if block.section in RETRIEVED)
            session.reserve = report.budget.max_output_tokens
            session.reply = None
        self._tell("context_tokens", report.tokens, task_type)
        if milliseconds is not None:
            self._tell("build_milliseconds", milliseconds, task_type)

    def reply(
        self, session_id: str, text: str, *, usage: object | None = None, user_id: str | None = None
    ) -> None:
        """Note the reply to the session's last window, and what it cost.

        The first reply with words is compared with what that window showed; of a further one only
        the tokens count. The same words again are the same reply, and only what the prompt took is
        still noted: a memory notes the replies that are saved in it. So hand a reply over before it
        is saved, for its tokens to be those the endpoint counted.

        Args:
            session_id: as given to `window`, or to the verbs of a memory.
            text: what the model answered; "" where it only called tools.
            usage: what the endpoint counted: a `Usage`, or what `Usage.of` takes. Without it the
                words are counted here.
            user_id: whose session, if not the monitor's.

        Raises:
            InputError: the usage is none.
        """
        told = Usage() if usage is None else Usage.of(usage)
        tokens = told.completion_tokens
        counted = self.counter.count_text(text) if tokens is None else tokens
        words = hash(text.strip()) if text.strip() else None
        with self._lock:
            session = self._session(session_id, user_id)
            task_type = self._known(session.task_type)
            again = words is not None and words == session.reply
            for series in (self._all, self._types[task_type]):
                if not again:
                    series.reply(counted, session.reserve)
                series.used_up(told)
            session.reply = words
            if session.blocks and words is not None:
                self._wait(_Waiting(task_type, session.question, session.blocks, text))
                session.blocks = ()
        if not again:
            self._tell("output_tokens", counted, task_type)
        if told.prompt_tokens is not None:
            self._tell("prompt_tokens", told.prompt_tokens, task_type)

    def summarised(self, session_id: str = "", *, task_type: str = "", user_id: str | None = None) -> None:
        """Note that a summary was triggered; the task type is the session's where it is left out."""
        with self._lock:
            seen = self._sessions.get(self._key(session_id, user_id))
            kind = self._known(task_type or (seen.task_type if seen else ""))
            for series in (self._all, self._types[kind]):
                series.counts["summaries"] += 1

    def step(self, session_id: str, text: str, ok: bool = True, *, user_id: str | None = None) -> None:
        """Note a step of a run; its goal is the question of the session's last window.

        Args:
            session_id: as given to `window`.
            text: what was done, such as the tool call; its first 1,000 characters are kept.
            ok: whether it went well.
            user_id: whose session, if not the monitor's.
        """
        now = self.clock()
        taken = Step(text=text[:_MOST_STEP_CHARS], ok=ok)
        with self._lock:
            session = self._session(session_id, user_id)
            session.steps.append((session.question, taken))
            session.stepped_at, session.drift = now, None
            for series in (self._all, self._types[self._known(session.task_type)]):
                series.counts["steps"] += 1
                series.counts["failed_steps"] += not ok

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

    def drift(self, session_id: str, *, user_id: str | None = None) -> Drift | None:
        """Return how far a session's run has moved from its goal; None without a step in 30 minutes."""
        self._catch_up()
        with self._lock:
            return dict(self._drifts()).get(self._key(session_id, user_id), ("", None))[1]

    def alerts(self) -> tuple[Alert, ...]:
        """Return what passed its threshold, by task type and by run; the critical first."""
        figures = self.by_task_type()
        with self._lock:
            runs = dict(self._drifts())
        return find_alerts(figures, runs, self.thresholds)

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with each value from now on, in the thread that noted it."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def reset(self) -> None:
        """Forget all figures and sessions; listeners stay."""
        with self._lock:
            self._all = Series(self.keep)
            self._types: dict[str, Series] = {}
            self._sessions: OrderedDict[SessionKey, _Session] = OrderedDict()  # used last at the end
            self._waiting: deque[_Waiting] = deque()

    def _key(self, session_id: str, user_id: str | None) -> SessionKey:
        return self.user_id if user_id is None else user_id, session_id

    def _session(self, session_id: str, user_id: str | None) -> _Session:
        """Return a session, a new one where it is not known; the one used longest ago leaves for it."""
        key = self._key(session_id, user_id)
        if key in self._sessions:
            self._sessions.move_to_end(key)
        else:
            if len(self._sessions) >= _MOST_SESSIONS:
                self._sessions.popitem(last=False)
            self._sessions[key] = _Session()
        return self._sessions[key]

    def _running(self) -> list[tuple[SessionKey, _Session]]:
        since = self.clock() - _ACTIVE
        held = self._sessions.items()
        return [(key, one) for key, one in held if one.stepped_at and one.stepped_at >= since]

    def _wait(self, reply: _Waiting) -> None:
        """Keep a reply to be compared; the one that waited longest leaves where there is no room."""
        if len(self._waiting) == _MOST_WAITING:
            for series in (self._all, self._types[self._waiting.popleft().task_type]):
                series.counts["unjudged"] += 1
        self._waiting.append(reply)

    def _known(self, task_type: str) -> str:
        """Return the name a task type is counted under, which has a series from now on."""
        if task_type not in self._types:
            if len(self._types) >= _MOST_TYPES:
                task_type = OTHER
            self._types.setdefault(task_type, Series(self.keep))
        return task_type

    def _tell(self, figure: Figure, value: float, task_type: str) -> None:
        for listener in self._listeners:
            listener(figure, value, task_type)

    def _read(self, task_type: str | None) -> Gauges:
        series = self._all if task_type is None else self._types[task_type]
        runs = [drift for _, (kind, drift) in self._drifts() if task_type in (None, kind)]
        return series.gauges(task_type, [run.score for run in runs], sum(run.drifting for run in runs))

    def _drifts(self) -> list[tuple[SessionKey, tuple[str, Drift]]]:
        """Return task type and drift of the active runs, as far as they were looked at."""
        return [(key, (one.task_type, one.drift)) for key, one in self._running() if one.drift]

    def _catch_up(self) -> None:
        """Compare the replies that wait, and look at the runs that have new steps."""
        with self._catching_up:
            with self._lock:
                waiting, self._waiting = list(self._waiting), deque()
                types, everything = self._types, self._all
                runs = [(one, list(one.steps)) for _, one in self._running() if one.drift is None]
            for item in waiting:
                hits = find_hits(item.question, item.blocks, item.reply)
                with self._lock:
                    for series in (everything, types[item.task_type]):
                        series.judged(hits)
            for session, steps in runs:
                self._look_at(session, steps)

    def _look_at(self, session: _Session, steps: list[tuple[str, Step]]) -> None:
        goal, run = last_run(steps)
        limits = self.thresholds
        found = find_drift(
            goal,
            run,
            drifted=limits.drift.warning,
            repeats=max(int(limits.failures.warning), 1),
        )
        with self._lock:
            if session.steps[-1] is steps[-1]:  # no step came meanwhile
                session.drift = found


def _question_of(messages: Sequence[dict[str, Any]]) -> str:
    """Return the text of the last user message; "" where there is none."""
    for message in reversed(messages):
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, list):
                content = "\n".join(part.get("text") or "" for part in content if isinstance(part, dict))
            return content or ""
    return ""
