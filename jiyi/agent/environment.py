"""The environment: where actions are carried out, and what comes back whatever happens."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jiyi.agent.actions import Action
from jiyi.clock import Clock, utc_now
from jiyi.errors import SettingsError
from jiyi.time_limit import OutOfTime, run_within

__all__ = ["Environment", "Observation"]

_MOST_LATE = 8  # actions not waited for any more that may still be going on


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What came of an action."""

    text: str  # what it returned, whole, or what went wrong
    ok: bool  # False where it raised or took too long
    at: datetime  # when it was begun
    seconds: float  # how long it was waited for


class Environment:
    """Carries out actions; subclass it to do so elsewhere, such as in a container.

    - `execute` never raises what an action raises: that is an observation, too.
    - Each action runs in a thread of its own and is waited for no longer than `seconds`;
      one that takes longer goes on by itself, and its result is thrown away.

    Args:
        seconds: most seconds an action is waited for.
        clock: where "now" comes from.

    Raises:
        SettingsError: seconds is not above 0.
    """

    def __init__(self, *, seconds: float = 60.0, clock: Clock = utc_now) -> None:
        if not 0 < seconds < float("inf"):
            raise SettingsError(f"seconds must be a number above 0, not {seconds}")
        self._seconds = seconds
        self._clock = clock

    def execute(self, action: Action, args: Mapping[str, Any]) -> Observation:
        """Carry out an action and return what came of it.

        KeyboardInterrupt is raised at once; the action may go on.
        """
        at, started = self._clock(), time.monotonic()
        try:
            returned = run_within(
                lambda: action.function(**args), self._seconds, owner=self, most_late=_MOST_LATE
            )
            text, ok = _as_text(returned), True
        except OutOfTime as late:
            text, ok = f"{action.name} was not waited for: {late}; it may still be going on", False
        except (Exception, SystemExit) as error:
            text, ok = f"{type(error).__name__}: {error}", False
        return Observation(text=text, ok=ok, at=at, seconds=time.monotonic() - started)


def _as_text(returned: Any) -> str:
    if isinstance(returned, str):
        return returned
    if returned is None:
        return "ok"
    return json.dumps(returned, ensure_ascii=False, default=str)
