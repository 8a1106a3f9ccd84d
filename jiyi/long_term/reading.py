"""Background reading: a language model extracts facts from finished stretches of conversation."""

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
_MIN_POLL, _MAX_POLL = 0.2, 60.0  # seconds between checks for finished stretches
_LEASE_MARGIN = 60.0  # seconds that a claim lasts longer than the calls of the model may take
_FIRST_DELAY = 60.0  # seconds after the first failure; each further one doubles it
_MAX_DELAY = 3_600.0
_MAX_BAD_REPLIES = 3  # unusable replies after which a stretch is skipped
_MAX_MISSING_REPLIES = 8  # calls without a reply after which it is skipped, if other stretches get replies
_CONTEXT_MESSAGES = 2  # messages before a stretch that the model is shown
_MAX_ERROR_CHARS = 500  # of a stored error
# The reply is not quoted: it may have words of one user, and all users see the error.
_BAD_REPLY_NOTE = "it gave no usable answer; use a larger model, or one that follows JSON schemas"

_log = logging.getLogger("jiyi")


class _LimitReached(LLMError):
    """The limits have no room for a call."""


@dataclass(frozen=True, slots=True)
class _MeteredLLM:
    """An `LLM` that keeps to limits of calls and tokens which all processes share.

    A call is made only if its prompt and the longest reply it may get fit into what is left. Tokens
    that the reply does not use are given back, unless the process dies meanwhile. Tokens are counted
    as the endpoint counts them, else as o200k_base does. The limits are the settings
    ``reader_calls_per_hour`` and ``reader_tokens_per_day``.
    """

    llm: LLM
    readings: Ledger
    calls: int  # per hour
    tokens: int  # per day
    clock: Clock

    def complete(
        self, messages: Sequence[Mapping[str, Any]], *, max_tokens: int | None = None, **options: Any
    ) -> Reply:
        """Return the other model's reply, see `LLM.complete`; raises `_LimitReached` without room for it."""
        count = counter_for("o200k_base").count_text
        prompt_tokens = sum(count(str(message.get("content", ""))) for message in messages)
        reserved = prompt_tokens + (max_tokens or 0)
        tokens_key, used = self._reserve(reserved), prompt_tokens
        try:
            reply = self.llm.complete(messages, max_tokens=max_tokens, **options)
            output_tokens = count(reply.text) if reply.output_tokens is None else reply.output_tokens
            used = output_tokens + (prompt_tokens if reply.input_tokens is None else reply.input_tokens)
        finally:
            self.readings.add(tokens_key, used - reserved)
        return reply

    def exhausted_limit(self, figures: Mapping[str, str]) -> str:
        """Return why no call can be made now; "" if one can."""
        calls, tokens = _usage_keys(self.clock())
        if int(figures.get(calls, 0)) >= self.calls:
            return f"nothing more is read now: reader_calls_per_hour={self.calls} is used up"
        if int(figures.get(tokens, 0)) >= self.tokens:
            return f"nothing more is read now: reader_tokens_per_day={self.tokens} is used up"
        return ""

    def _reserve(self, count: int) -> str:
        """Reserve one call and ``count`` tokens; return the key of the day's tokens."""
        calls, tokens = _usage_keys(self.clock())
        if self.readings.add(calls, 1) > self.calls:
            self.readings.add(calls, -1)
            raise _LimitReached(f"nothing more is read now: reader_calls_per_hour={self.calls} is used up")
        if (total := self.readings.add(tokens, count)) > self.tokens:
            self.readings.add(tokens, -count)
            self.readings.add(calls, -1)
            raise _LimitReached(
                f"nothing more is read now: a call may take {count} tokens, and "
                f"reader_tokens_per_day={self.tokens} leaves {self.tokens - (total - count)}"
            )
        return tokens


def _usage_keys(moment: datetime) -> tuple[str, str]:
    hour = to_micros(moment) // 3_600_000_000
    return f"calls:{hour:08}", f"tokens:{hour // 24:08}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingReceipt:
    """What a call of `Reader.read_due` did."""

    stretches: int = 0  # read
    new: int = 0  # facts that were not known
    changed: int = 0  # facts superseded or retracted
    refused: int = 0  # statements of the model that the messages do not support
    passed_over: int = 0  # stretches skipped after repeated failures
    waiting: int = 0  # messages still to be read
    notes: tuple[str, ...] = ()  # why not everything due was read


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingState:
    """The state of reading in a whole database."""

    waiting: int  # messages to be read, counted by their sequence numbers
    calls: int  # of the model in this hour
    tokens: int  # of prompts and replies today, UTC
    refused: int  # statements of the model that the messages did not support, in all
    passed_over: int  # stretches skipped after repeated failures, in all
    failures: int  # calls in a row without a reply
    error: str  # of the last of these, or ""
    again_at: datetime | None  # when the next call is made


class Reader(Worker):
    """Reads conversations in stretches with a language model, and stores the facts.

    - A stretch is read when it is full, or when its session has been silent for a while. Any process
      may claim what is due: most recently active sessions first, failed ones last. Saving, searching
      and windows never wait for it.
    - Facts and the cursor of how far a session is read are written in one transaction: a crash
      loses nothing, and the interrupted stretch is read again when its claim expires.
    - While the model does not reply, all stretches wait, longer after each failure.
    - A stretch that failed is tried again at half its length. It is skipped after three unusable
      replies, or after eight calls without a reply while others are read.
    - Limits of calls and tokens hold for all processes together: see `_MeteredLLM`.
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
            poll_seconds=min(max(30 * settings.reader_pause_minutes, _MIN_POLL), _MAX_POLL),
            wrap_error=lambda error: LLMUnreachable(f"reading failed: {error!r}"),
            fatal_errors=(Closed,),
        )
        self._store, self._readings, self._facts = store, readings, facts
        self._settings, self._clock, self._on_new = settings, clock, on_new
        limits = settings.reader_calls_per_hour, settings.reader_tokens_per_day
        self._llm = _MeteredLLM(llm, readings, *limits, clock)
        # A reply may be requested twice; a claim that takes longer expires.
        self._lease = timedelta(seconds=2 * settings.llm_seconds + _LEASE_MARGIN)
        self._read_lock = threading.Lock()  # the worker and `read_due` take turns
        self._current_claim: Claim | None = None

    def read_due(self, user_id: str, progress: Callable[[int], None] | None = None) -> ReadingReceipt:
        """Read all that is due of a user, as far as limits and the model allow.

        It ignores the pause after a failure, since the model may work again.
        ``progress`` is called with the number of stretches done so far.
        """
        done, more = ReadingReceipt(), True
        while more:
            receipt, more = self._read_next(user_id, respect_pause=False)
            counts = ("stretches", "new", "changed", "refused", "passed_over")
            sums = {name: getattr(done, name) + getattr(receipt, name) for name in counts}
            done = ReadingReceipt(notes=tuple(dict.fromkeys((*done.notes, *receipt.notes))), **sums)
            if progress and more:
                progress(done.stretches + done.passed_over)
        return replace(done, waiting=self.unread(user_id))

    def unread(self, user_id: str) -> int:
        """Return how many messages of a user are still to be read, counted by their sequence numbers."""
        return self._readings.unread(user_id)

    def close(self, timeout: float = 1.0) -> None:
        """Stop, and release the stretch being read so that another process can read it at once."""
        super().close(timeout)
        if (claim := self._current_claim) is not None:
            with suppress(JiyiError):
                self._readings.end(claim, claim.next_seq, failures=claim.failures)

    def _run_once(self) -> bool:
        return self._read_next(None, respect_pause=True)[1]

    def _read_next(self, user_id: str | None, *, respect_pause: bool) -> tuple[ReadingReceipt, bool]:
        """Read one stretch; return what was done, and whether there may be more to do now."""
        with self._read_lock:
            now, figures = self._clock(), self._readings.figures()
            reason = self._llm.exhausted_limit(figures)
            if not reason and respect_pause and to_micros(now) < int(figures.get("wait_until", 0)):
                reason = figures.get("error", "")
            if reason:
                return ReadingReceipt(notes=(reason,)), False
            pause = timedelta(minutes=self._settings.reader_pause_minutes)
            due = Due(now=now, messages=self._settings.reader_messages, pause=pause)
            claim = self._readings.claim(due, until=now + self._lease, user_id=user_id)
            if claim is None:
                return ReadingReceipt(), False
            self._current_claim = claim
            try:
                return self._read(claim, figures)
            finally:
                self._current_claim = None

    def _read(self, claim: Claim, figures: Mapping[str, str]) -> tuple[ReadingReceipt, bool]:
        messages, before, next_seq = self._load_stretch(claim)
        if not messages:
            self._readings.end(claim, next_seq)
            return ReadingReceipt(), True
        try:
            reading = self._facts.read(self._llm, messages, before)
        except _LimitReached as error:
            self._readings.end(claim, claim.next_seq, failures=claim.failures)
            return ReadingReceipt(notes=(str(error),)), False
        except Exception as error:  # third-party models may raise anything
            return self._handle_failure(claim, next_seq, error, figures)

        def store_facts() -> Learned | None:
            return self._facts.keep(messages, reading) if self._readings.end(claim, next_seq) else None

        learned = self._store.together(store_facts)
        if learned is None:  # the claim had expired, and another process has read the stretch
            return ReadingReceipt(), True
        if figures.get("error"):
            self._readings.note(failures=0, wait_until=0, error="")
        if learned.facts:
            self._on_new()
        if reading.refused:
            self._readings.add("refused", reading.refused)
        new, changed = len(learned.new), len(learned.superseded) + len(learned.retracted)
        return ReadingReceipt(stretches=1, new=new, changed=changed, refused=reading.refused), True

    def _load_stretch(self, claim: Claim) -> tuple[list[Message], list[Message], int]:
        """Return the next stretch of a session, the messages just before, and where the next one begins."""
        max_messages = max(self._settings.reader_messages >> claim.failures, 1)
        max_tokens = max(self._settings.reader_tokens >> claim.failures, 1)
        talk = Query(scope=claim.scope, kinds=("message",), roles=("user", "assistant"), limit=max_messages)
        from_cursor = replace(talk, after_seq=claim.next_seq - 1, before_seq=claim.upto)
        unread = cast("list[Message]", self._store.find(from_cursor))
        earlier = replace(talk, before_seq=claim.next_seq, newest_first=True, limit=_CONTEXT_MESSAGES)
        before = cast("list[Message]", self._store.find(earlier))[::-1]
        count = first_batch_size(unread, max_messages, max_tokens)
        is_last = count == len(unread) < max_messages
        next_seq = claim.upto if is_last else cast("int", unread[count - 1].seq) + 1
        return [message for message in unread[:count] if message.text.strip()], before, next_seq

    def _handle_failure(
        self, claim: Claim, next_seq: int, error: Exception, figures: Mapping[str, str]
    ) -> tuple[ReadingReceipt, bool]:
        """Postpone or skip a stretch; postpone all reading if the model cannot be reached."""
        if not isinstance(error, JiyiError):
            error = LLMUnreachable(f"the language model failed: {error!r}")
        if not isinstance(error, LLMError):
            raise error
        self.last_error = error
        replied = isinstance(error, BadReply)
        note = f"the language model read nothing: {_BAD_REPLY_NOTE if replied else error}"[:_MAX_ERROR_CHARS]
        _log.warning("reader: %s", note)
        tries, now = claim.failures + 1, self._clock()
        reads_others = not int(figures.get("failures", 0))
        if tries >= (_MAX_BAD_REPLIES if replied else _MAX_MISSING_REPLIES) and (replied or reads_others):
            self._readings.end(claim, next_seq)
            self._readings.add("passed_over", 1)
            return ReadingReceipt(passed_over=1, notes=(note,)), True
        self._readings.end(claim, claim.next_seq, until=now + _retry_delay(tries), failures=tries)
        if replied:
            self._readings.note(error=note)
            return ReadingReceipt(notes=(note,)), True
        wait_until = to_micros(now + _retry_delay(self._readings.add("failures", 1)))
        self._readings.note(error=note, wait_until=wait_until)
        return ReadingReceipt(notes=(note,)), False


def reading_state(readings: Ledger, now: datetime) -> ReadingState:
    """Return the state of reading."""
    figures = readings.figures()
    calls, tokens = _usage_keys(now)
    names = {"calls": calls, "tokens": tokens} | {n: n for n in ("refused", "passed_over", "failures")}
    wait_until = int(figures.get("wait_until", 0))
    return ReadingState(
        waiting=readings.unread(),
        error=figures.get("error", ""),
        again_at=utc_from_micros(wait_until) if wait_until > to_micros(now) else None,
        **{name: int(figures.get(figure, 0)) for name, figure in names.items()},
    )


def _retry_delay(failures: int) -> timedelta:
    return timedelta(seconds=min(_FIRST_DELAY * 2 ** min(failures - 1, 10), _MAX_DELAY))
