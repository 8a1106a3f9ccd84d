"""The sessions the monitor follows: the window that waits for its reply, and the run in hand."""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jiyi.monitor.drift import Drift, Step
from jiyi.records import Block
from jiyi.text import query_terms

__all__ = ["Goal", "Session", "SessionKey", "Sessions", "last_run", "question_of"]

_MOST_SESSIONS = 500
_MOST_STEPS = 50  # of a session
_FEWEST_TERMS = 2  # of a request; "go on" and 继续 ask for nothing new

SessionKey = tuple[str, str]
"""Whose session, and which: sessions of two users may share an id."""

Goal = str
"""What was asked for."""


@dataclass(slots=True)
class Session:
    """What is known of one session."""

    task_type: str = ""  # of its last window
    question: Goal = ""  # of its last window
    blocks: tuple[Block, ...] = ()  # of its last window, until the reply comes
    reserve: int = 0  # tokens its last window kept free for the reply
    reply: int | None = None  # hash of the last reply to that window
    tokens: int = 0  # of that reply
    measured: bool = False  # whether its endpoint counted them
    steps: deque[tuple[Goal, Step]] = field(default_factory=lambda: deque(maxlen=_MOST_STEPS))
    stepped_at: datetime | None = None  # the last step
    drift: Drift | None = None  # as of the last step; None: not looked at yet


class Sessions:
    """The sessions used last; the one used longest ago leaves where there is no room."""

    def __init__(self, most: int = _MOST_SESSIONS) -> None:
        self._most = most
        self._held: OrderedDict[SessionKey, Session] = OrderedDict()

    def of(self, key: SessionKey) -> Session:
        """Return a session, a new one where it is not known."""
        found = self._held.get(key)
        if found is None:
            if len(self._held) >= self._most:
                self._held.popitem(last=False)
            found = self._held[key] = Session()
        else:
            self._held.move_to_end(key)
        return found

    def task_type(self, key: SessionKey) -> str:
        """Return the task type of a session's last window; "" where it is not known."""
        found = self._held.get(key)
        return found.task_type if found else ""

    def running(self, since: datetime) -> list[tuple[SessionKey, Session]]:
        """Return the sessions with a step since then."""
        held = self._held.items()
        return [(name, one) for name, one in held if one.stepped_at and one.stepped_at >= since]


def last_run(steps: Sequence[tuple[Goal, Step]]) -> tuple[Goal, list[Step]]:
    """Return the newest request of a session and the steps taken for it.

    A new question is a new request, unless it has no words of its own ("go on", 继续).
    """
    goal = seen = ""
    run: list[Step] = []
    for asked, step in steps:
        if asked != seen:
            seen = asked
            if not goal or len(query_terms(asked[:2_000])) >= _FEWEST_TERMS:
                goal, run = asked, []
        run.append(step)
    return goal, run


def question_of(messages: Sequence[dict[str, Any]]) -> Goal:
    """Return the text of the last user message; "" where there is none."""
    for message in reversed(messages):
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, list):
                content = "\n".join(part.get("text") or "" for part in content if isinstance(part, dict))
            return content or ""
    return ""
