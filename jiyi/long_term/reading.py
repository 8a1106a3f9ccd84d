"""Background reading by a language model: finished stretches of conversation become facts."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast

from jiyi.clock import Clock, to_micros, utc_from_micros, utc_now
from jiyi.errors import BadReply, Closed, JiyiError, LLMError, LLMUnreachable
from jiyi.extraction import first_batch_size
from jiyi.llm import LLM, Reply
from jiyi.long_term.facts.memory import FactMemory
from jiyi.long_term.facts.merge import Learned
from jiyi.long_term.worker import Worker
from jiyi.records import Message, Query
from jiyi.settings import Settings
from jiyi.storage import Claim, Due, Ledger, Store
from jiyi.text import counter_for

__all__ = ["Reader", "ReadingReceipt", "ReadingState", "reading_state"]
_SHORTEST_POLL, _LONGEST_POLL = 0.2, 60.0  # seconds between looks for talk that has come to rest
_LEASE_SPARE = 60.0  # seconds in addition to the model's that reading a stretch may take
_PAUSE = 60.0  # seconds after the first failure; each further one doubles them
_LONGEST_PAUSE = 3_600.0
_TRIES = 3  # of a stretch for which the model has no usable answer
_TRIES_AWAY = 8  # of one for which it has none at all, while it has them for others
_BEFORE = 2  # messages before a stretch that are shown with it
_SHOWN_ERROR = 500  # characters of an error that are stored
# Words of an answer may be somebody's, and the error is everybody's.
_UNUSABLE = "it gave no usable answer; use a larger model, or one that follows JSON schemas"
_log = logging.getLogger("jiyi")


class _Spent(LLMError):
    """A call was not made: it might have gone over a limit."""


@dataclass(frozen=True, slots=True)
class _Allowance:
    """An `LLM` whose calls are paid before they are made, from limits that all processes share.

    A call is made only where its question and the longest answer it may get fit into what is left.
    What the answer does not use is given back; where the process dies meanwhile it stays spent.
    Tokens are counted as the endpoint counts them, else as o200k_base does. The limits are the
    settings ``reader_calls_per_hour`` and ``reader_tokens_per_day``.
    """

    llm: LLM
    readings: Ledger
    calls: int  # of an hour
    tokens: int  # of a day
    clock: Clock

    def complete(
        self, messages: Sequence[Mapping[str, Any]], *, max_tokens: int | None = None, **options: Any
    ) -> Reply:
        """Return the other model's reply; see `LLM.complete`.

        Raises:
            _Spent: the limits have no room for this call.
            StorageError: the figures cannot be written.
        """
        counted = counter_for("o200k_base").count_text
        asked = sum(counted(str(message.get("content", ""))) for message in messages)
        most = asked + (max_tokens or 0)
        tokens, used = self._set_aside(most), asked
        try:
            reply = self.llm.complete(messages, max_tokens=max_tokens, **options)
            answered = counted(reply.text) if reply.output_tokens is None else reply.output_tokens
            used = answered + (asked if reply.input_tokens is None else reply.input_tokens)
        finally:
            self.readings.add(tokens, used - most)
        return reply

    def spent(self, figures: Mapping[str, str]) -> str:
        """Return why no call can be made now, "" where one may."""
        calls, tokens = _periods(self.clock())
        if int(figures.get(calls, 0)) >= self.calls:
            return f"nothing more is read now: reader_calls_per_hour={self.calls} is used up"
        if int(figures.get(tokens, 0)) >= self.tokens:
            return f"nothing more is read now: reader_tokens_per_day={self.tokens} is used up"
        return ""

    def _set_aside(self, most: int) -> str:
        """Take one call and so many tokens; return the name of the figure they were taken from."""
        calls, tokens = _periods(self.clock())
        if self.readings.add(calls, 1) > self.calls:
            self.readings.add(calls, -1)
            raise _Spent(f"nothing more is read now: reader_calls_per_hour={self.calls} is used up")
        if (total := self.readings.add(tokens, most)) > self.tokens:
            self.readings.add(tokens, -most)
            self.readings.add(calls, -1)
            raise _Spent(
                f"nothing more is read now: a call may take {most} tokens, and "
                f"reader_tokens_per_day={self.tokens} leaves {self.tokens - (total - most)}"
            )
        return tokens


def _periods(moment: datetime) -> tuple[str, str]:
    """Return the names of the figures of this hour's calls and this day's tokens."""
    hour = to_micros(moment) // 3_600_000_000
    return f"calls:{hour:08}", f"tokens:{hour // 24:08}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingReceipt:
    """What was read now."""

    stretches: int = 0  # that were read
    new: int = 0  # facts that were not known
    changed: int = 0  # facts that were superseded or taken back
    refused: int = 0  # statements of the model that the messages do not hold
    passed_over: int = 0  # stretches that were given up
    waiting: int = 0  # messages that are still to be read
    notes: tuple[str, ...] = ()  # why not everything due was read


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingState:
    """How reading stands in a whole database."""

    waiting: int  # messages that are to be read, by their places
    calls: int  # of the model in this hour
    tokens: int  # asked and answered today, UTC
    refused: int  # statements of the model that the messages did not hold, ever
    passed_over: int  # stretches that were given up, ever
    failures: int  # tries in a row for which there was no answer
    error: str  # of the last of these; "" where there was none
    again_at: datetime | None  # when it is tried again


class Reader(Worker):
    """Reads conversations, stretch by stretch, with a language model, and stores the facts.

    - A stretch is read when it is full, or its session has been silent for a while. Any process may
      claim what is due: most recently active sessions first, those that failed last; saving,
      searching and windows never wait for it.
    - Facts and the cursor of how far a session is read are written in one transaction: a crash
      loses nothing, and what it interrupted is read again when its claim expires.
    - While the model does not answer, all stretches wait, longer after each failure.
    - A stretch that failed is tried again at half its length. It is skipped after three unusable
      answers, or after eight calls without an answer while others are read.
    - Limits of calls and tokens hold for all processes together: see `_Allowance`.
    - Settings named ``reader_`` say how much is read at once, when, and at what cost.
    - ``on_new`` is called when facts were stored.
    """

    def __init__(
        self,
        store: Store,
        readings: Ledger,
        facts: FactMemory,
        llm: LLM,
        *,
        settings: Settings,
        clock: Clock = utc_now,
        on_new: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(
            "reader",
            poll=min(max(30 * settings.reader_pause_minutes, _SHORTEST_POLL), _LONGEST_POLL),
            failed=lambda error: LLMUnreachable(f"reading failed: {error!r}"),
            final=(Closed,),
        )
        self._store = store
        self._readings = readings
        self._facts = facts
        limits = settings.reader_calls_per_hour, settings.reader_tokens_per_day
        self._llm = _Allowance(llm, readings, *limits, clock)
        self._settings = settings
        # An answer may be asked for twice; a claim that takes longer is given up.
        self._lease = timedelta(seconds=2 * settings.llm_seconds + _LEASE_SPARE)
        self._clock = clock
        self._on_new = on_new
        self._working = threading.Lock()  # the worker and `read_due` take turns
        self._held: Claim | None = None

    def read_due(self, user_id: str, progress: Callable[[int], None] | None = None) -> ReadingReceipt:
        """Read everything of a user that is due, as far as limits and the model allow.

        It does not wait out the pause after a failure: the model may have been repaired.
        ``progress`` is called with the number of stretches done so far.
        """
        done, more = ReadingReceipt(), True
        while more:
            one, more = self._read_one(user_id, patient=False)
            done = _added(done, one)
            if progress and more:
                progress(done.stretches + done.passed_over)
        return replace(done, waiting=self.unread(user_id))

    def unread(self, user_id: str) -> int:
        """Return how many messages of a user are still to be read, by their places."""
        return self._readings.unread(user_id)

    def state(self) -> ReadingState:
        """Return how reading stands for all users."""
        return reading_state(self._readings, self._clock())

    def close(self, timeout: float = 1.0) -> None:
        """Stop; what is being read is left to the next process, at once."""
        super().close(timeout)
        if (held := self._held) is not None:
            with suppress(JiyiError):
                self._readings.end(held, held.next_seq, failures=held.failures)

    def _turn(self) -> bool:
        return self._read_one(None, patient=True)[1]

    def _read_one(self, user_id: str | None, *, patient: bool) -> tuple[ReadingReceipt, bool]:
        """Read one stretch; return what came of it, and whether there may be more to do now."""
        with self._working:
            now, figures = self._clock(), self._readings.figures()
            reason = self._llm.spent(figures)
            if not reason and patient and to_micros(now) < int(figures.get("wait_until", 0)):
                reason = figures.get("error", "")  # the model is left alone for a while
            if reason:
                return ReadingReceipt(notes=(reason,)), False
            pause = timedelta(minutes=self._settings.reader_pause_minutes)
            due = Due(now=now, messages=self._settings.reader_messages, pause=pause)
            claim = self._readings.claim(due, until=now + self._lease, user_id=user_id)
            if claim is None:
                return ReadingReceipt(), False
            self._held = claim
            try:
                return self._read(claim, figures)
            finally:
                self._held = None

    def _read(self, claim: Claim, figures: Mapping[str, str]) -> tuple[ReadingReceipt, bool]:
        messages, before, next_seq = self._stretch(claim)
        if not messages:
            self._readings.end(claim, next_seq)
            return ReadingReceipt(), True
        try:
            reading = self._facts.read(self._llm, messages, before)
        except _Spent as error:
            self._readings.end(claim, claim.next_seq, failures=claim.failures)
            return ReadingReceipt(notes=(str(error),)), False
        except Exception as error:  # a model from outside may raise anything
            return self._put_off(claim, next_seq, error, figures)

        def keep() -> Learned | None:
            return self._facts.keep(messages, reading) if self._readings.end(claim, next_seq) else None

        learned = self._store.together(keep)
        if learned is None:  # the claim was over, and somebody else has read it
            return ReadingReceipt(), True
        if figures.get("error"):
            self._readings.note(failures=0, wait_until=0, error="")
        if reading.refused:
            self._readings.add("refused", reading.refused)
        if learned.facts:
            self._on_new()
        new, changed = len(learned.new), len(learned.superseded) + len(learned.retracted)
        return ReadingReceipt(stretches=1, new=new, changed=changed, refused=reading.refused), True

    def _stretch(self, claim: Claim) -> tuple[list[Message], list[Message], int]:
        """Return the next stretch of a session, what was said just before, and where the next begins."""
        most = max(self._settings.reader_messages >> claim.failures, 1)
        tokens = max(self._settings.reader_tokens >> claim.failures, 1)
        talk = Query(scope=claim.scope, kinds=("message",), roles=("user", "assistant"), limit=most)
        ahead = replace(talk, after_seq=claim.next_seq - 1, before_seq=claim.upto)
        unread = cast("list[Message]", self._store.find(ahead))
        earlier = replace(talk, before_seq=claim.next_seq, newest_first=True, limit=_BEFORE)
        before = cast("list[Message]", self._store.find(earlier))[::-1]
        count = first_batch_size(unread, most, tokens)
        last = count == len(unread) < most
        next_seq = claim.upto if last else cast("int", unread[count - 1].seq) + 1
        return [message for message in unread[:count] if message.text.strip()], before, next_seq

    def _put_off(
        self, claim: Claim, next_seq: int, error: Exception, figures: Mapping[str, str]
    ) -> tuple[ReadingReceipt, bool]:
        """Let a stretch wait, or pass it over; let everybody wait where the model cannot be had at all."""
        if not isinstance(error, JiyiError):
            error = LLMUnreachable(f"the language model failed: {error!r}")
        if not isinstance(error, LLMError):
            raise error
        self.last_error = error
        answers = isinstance(error, BadReply)
        note = f"the language model read nothing: {_UNUSABLE if answers else error}"[:_SHOWN_ERROR]
        _log.warning("reader: %s", note)
        tries, now = claim.failures + 1, self._clock()
        reads_others = not int(figures.get("failures", 0))
        if tries >= (_TRIES if answers else _TRIES_AWAY) and (answers or reads_others):
            self._readings.end(claim, next_seq)
            self._readings.add("passed_over", 1)
            return ReadingReceipt(passed_over=1, notes=(note,)), True
        self._readings.end(claim, claim.next_seq, until=now + _pause(tries), failures=tries)
        if answers:
            self._readings.note(error=note)
            return ReadingReceipt(notes=(note,)), True
        wait_until = to_micros(now + _pause(self._readings.add("failures", 1)))
        self._readings.note(error=note, wait_until=wait_until)
        return ReadingReceipt(notes=(note,)), False


def reading_state(readings: Ledger, now: datetime) -> ReadingState:
    """Return how reading stands."""
    figures = readings.figures()
    calls, tokens = _periods(now)
    names = {"calls": calls, "tokens": tokens} | {n: n for n in ("refused", "passed_over", "failures")}
    wait_until = int(figures.get("wait_until", 0))
    return ReadingState(
        waiting=readings.unread(),
        error=figures.get("error", ""),
        again_at=utc_from_micros(wait_until) if wait_until > to_micros(now) else None,
        **{name: int(figures.get(figure, 0)) for name, figure in names.items()},
    )


def _added(one: ReadingReceipt, other: ReadingReceipt) -> ReadingReceipt:
    counts = ("stretches", "new", "changed", "refused", "passed_over")
    sums = {name: getattr(one, name) + getattr(other, name) for name in counts}
    return ReadingReceipt(notes=tuple(dict.fromkeys((*one.notes, *other.notes))), **sums)


def _pause(failures: int) -> timedelta:
    return timedelta(seconds=min(_PAUSE * 2 ** min(failures - 1, 10), _LONGEST_PAUSE))
