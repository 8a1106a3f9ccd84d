"""What bounds a run, and what came of it."""

from dataclasses import dataclass
from typing import Literal

from jiyi.errors import SettingsError
from jiyi.records import Step, Window

__all__ = ["Limits", "Run", "Stopped"]

Stopped = Literal["done", "max_steps", "budget", "interrupted", "failed"]
"""Why a run ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a run may take.

    Raises:
        SettingsError: a limit is not above 0.
    """

    max_steps: int = 20  # questions to the model
    max_tokens: int | None = 200_000  # input and output of all steps together; None: no limit
    seconds: float | None = 600.0  # no step is begun after these; None: no limit

    def __post_init__(self) -> None:
        """Refuse limits that allow nothing."""
        for name in ("max_steps", "max_tokens", "seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise SettingsError(f"{name} must be above 0, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of a run."""

    answer: str  # the answer; where there is none, what the model said last, or ""
    stopped: Stopped  # why it ended
    reason: str = ""  # the same in words, where it is not "done"
    steps: tuple[Step, ...] = ()  # what was done, in order, results whole
    model_calls: int = 0  # how often the model was asked
    input_tokens: int = 0  # of all calls; as the endpoint counted, else as the window was counted
    output_tokens: int = 0  # of all calls; as the endpoint counted, else counted here
    task_id: str | None = None  # the task that keeps the steps; None where nothing was done
    window: Window | None = None  # what the model saw last
    notes: tuple[str, ...] = ()  # what was not as it should be
