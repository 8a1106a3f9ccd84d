"""What reading in the background may cost: calls of an hour, tokens of a day, of all processes together."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jiyi.clock import Clock, to_micros, utc_now
from jiyi.errors import LLMError
from jiyi.llm import LLM, Reply
from jiyi.settings import Settings
from jiyi.storage import Readings
from jiyi.text import counter_for

__all__ = ["Allowance", "Spent", "periods"]


class Spent(LLMError):
    """A call was not made: it might have gone over a limit."""


class Allowance:
    """An `LLM` whose calls are paid before they are made, from limits that all processes share.

    A call is made only where its question and the longest answer it may get fit into what is left.
    What the answer does not use is given back; where the process dies meanwhile it stays spent.
    Tokens are counted as the endpoint counts them, else as o200k_base does.

    Args:
        llm: the model.
        readings: where the figures are.
        settings: the limits, ``reader_calls_per_hour`` and ``reader_tokens_per_day``.
        clock: the present.
    """

    def __init__(self, llm: LLM, readings: Readings, settings: Settings, clock: Clock = utc_now) -> None:
        self._llm = llm
        self._readings = readings
        self._calls = settings.reader_calls_per_hour
        self._tokens = settings.reader_tokens_per_day
        self._clock = clock

    def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int | None = None,
        temperature: float = 0,
        schema: Mapping[str, Any] | None = None,
        stop: Sequence[str] = (),
    ) -> Reply:
        """Return the other model's reply; see `LLM.complete`.

        Raises:
            Spent: the limits have no room for this call.
            StorageError: the figures cannot be written.
        """
        counted = counter_for("o200k_base").count_text
        asked = sum(counted(str(message.get("content", ""))) for message in messages)
        most = asked + (max_tokens or 0)
        tokens, used = self._set_aside(most), asked
        try:
            reply = self._llm.complete(
                messages, max_tokens=max_tokens, temperature=temperature, schema=schema, stop=stop
            )
            answered = counted(reply.text) if reply.output_tokens is None else reply.output_tokens
            used = answered + (asked if reply.input_tokens is None else reply.input_tokens)
        finally:
            self._readings.add(tokens, used - most)
        return reply

    def spent(self, figures: Mapping[str, str]) -> str:
        """Return why no call can be made now, "" where one may."""
        calls, tokens = periods(self._clock())
        if int(figures.get(calls, 0)) >= self._calls:
            return f"nothing more is read now: reader_calls_per_hour={self._calls} is used up"
        if int(figures.get(tokens, 0)) >= self._tokens:
            return f"nothing more is read now: reader_tokens_per_day={self._tokens} is used up"
        return ""

    def _set_aside(self, most: int) -> str:
        """Take one call and so many tokens; return the name of the figure they were taken from."""
        calls, tokens = periods(self._clock())
        if self._readings.add(calls, 1) > self._calls:
            self._readings.add(calls, -1)
            raise Spent(f"nothing more is read now: reader_calls_per_hour={self._calls} is used up")
        if (total := self._readings.add(tokens, most)) > self._tokens:
            self._readings.add(tokens, -most)
            self._readings.add(calls, -1)
            raise Spent(
                f"nothing more is read now: a call may take {most} tokens, and "
                f"reader_tokens_per_day={self._tokens} leaves {self._tokens - (total - most)}"
            )
        return tokens


def periods(moment: datetime) -> tuple[str, str]:
    """Return the names of the figures of this hour's calls and this day's tokens."""
    hour = to_micros(moment) // 3_600_000_000
    return f"calls:{hour:08}", f"tokens:{hour // 24:08}"
