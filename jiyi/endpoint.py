"""Web APIs: their address, how to retry, and the errors of their failures."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import SystemRandom
from typing import TypeVar
from urllib.parse import urlsplit

from jiyi.breaker import Breaker
from jiyi.errors import JiyiError, SettingsError

__all__ = [
    "Endpoint", "Failure", "Faults", "get_breaker", "is_web_address", "retry", "retry_within",
    "skipped_endpoints",
]  # fmt: skip

_T = TypeVar("_T")

_DEFAULT_URL = "https://api.openai.com/v1"
_NO_KEY = "none"  # the client insists on a key, a server without keys ignores it
_TRANSIENT = frozenset({408, 409, 429})  # and 5xx: another try may succeed
_NOT_IMPLEMENTED = 501  # a 5xx that is not transient: the server cannot do it at all
_FIRST_PAUSE, _MAX_PAUSE = 0.5, 8.0  # seconds between tries, doubled each time
_MAX_RETRY_AFTER_SECONDS = 120.0  # seconds; an endpoint that asks to wait longer is not tried again
_GRACE_SECONDS = 1.0  # seconds after a time limit until an answer is no longer waited for at all
_ADVICE_BY_STATUS = {401: "check api_key", 403: "check api_key and what it is allowed to use"}
_RANDOM = SystemRandom()  # leaves the random numbers of a program that seeds them alone


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Endpoint:
    """Where an OpenAI-compatible API is, and how patiently to ask it.

    The environment is read once, here. A key found there goes to `base_url` whatever that is, as with the
    package `openai`; give `api_key=""` to send none. Raises `SettingsError`: a field has an unusable value.
    """

    base_url: str | None = None  # None: OPENAI_BASE_URL, else OpenAI itself
    api_key: str | None = None  # None: OPENAI_API_KEY; "": no key
    timeout: float = 30.0  # seconds to wait for a connection, and for each piece of an answer
    retries: int = 4  # further tries after time-outs, broken connections, 408, 409, 429 and 5xx
    query_seconds: float = 3.0  # most that the vector of a question may take, all tries included
    url: str = field(init=False)  # the address in force
    key: str = field(init=False)  # the key in force; a placeholder where there is none

    def __post_init__(self) -> None:
        if not (self.timeout > 0 and 0 < self.query_seconds < float("inf")) or self.retries < 0:
            needed = "timeout and query_seconds must be above 0 and retries at least 0"
            raise SettingsError(f"{needed}, not {self.timeout}, {self.query_seconds} and {self.retries}")
        url = (self.base_url or os.environ.get("OPENAI_BASE_URL") or _DEFAULT_URL).strip()
        api_key = os.environ.get("OPENAI_API_KEY") if self.api_key is None else self.api_key
        key = (api_key or "").strip() or _NO_KEY
        if not is_web_address(url):
            raise SettingsError('base_url must be a web address such as "http://localhost:11434/v1"')
        if not key.isascii() or not key.isprintable() or " " in key:
            raise SettingsError("api_key holds characters that no key has: look for a paste error")
        if url == _DEFAULT_URL and key == _NO_KEY:
            raise SettingsError("OpenAI needs a key: give api_key, set OPENAI_API_KEY, or give a base_url")
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "key", key)

    def __repr__(self) -> str:
        return f"Endpoint({self.shown!r}, timeout={self.timeout}, retries={self.retries})"

    @property
    def shown(self) -> str:
        """The address without user, password or query, for messages."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def has_key(self) -> bool:
        """Whether there is a key to send."""
        return self.key != _NO_KEY

    def short(self, words: str) -> str:
        """Return what a server said as one short line, with the key masked."""
        if self.has_key:
            words = words.replace(self.key, "***")
        return " ".join(words.split())[:300] or "nothing"

    def shareable(self, error: Exception) -> Exception | None:
        """Return `error` for use as a cause, or None if it quotes the key."""
        return None if self.has_key and self.key in f"{error} {error.__cause__}" else error


def is_web_address(url: str) -> bool:
    """Say whether it is an address of the web, with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


@dataclass(eq=False)
class Failure(Exception):
    """One try at an endpoint that failed, before it is decided whether there is another."""

    error: JiyiError  # what to raise when there is none
    transient: bool = False  # whether another try may succeed
    after: float | None = None  # seconds the endpoint asked to wait, where it did
    status: int | None = None  # the HTTP status, where there was an answer
    words: str = ""  # what the endpoint said, or the name of the field it blamed
    cause: Exception | None = None  # the error of the package that asked, where it may be shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The errors that an adapter raises when its endpoint fails, and the advice in them."""

    unreachable: type[JiyiError]  # refused connections, timed out, or kept failing
    refused: type[JiyiError]  # said no, or answered with something unusable
    advice: Mapping[int, str]  # what to do, by HTTP status, beyond what every endpoint has in common
    other_advice: str  # what to do about every other status
    misfit: str = "gave an unusable answer"  # what an answer of the wrong form is called
    misfit_advice: str = "check base_url"  # what to do about it

    def no_answer(self, endpoint: Endpoint, reason: str | None, *, seconds: float, tries: int) -> Failure:
        """Return the failure of a connection that was refused or broke; None: it was silent for `seconds`."""
        problem = f"did not answer within {seconds:.3g} s, {tries} time(s)"
        advice = "check that it runs, or raise the endpoint's timeout"
        if reason is not None:
            problem = f"could not be reached, {tries} time(s) ({endpoint.short(reason)})"
            advice = "check that it runs and that base_url is right"
        return Failure(self.unreachable(f"{endpoint.shown} {problem}: {advice}"), transient=True)

    def status_failure(
        self,
        endpoint: Endpoint,
        status: int,
        message: str,
        *,
        blamed: str = "",
        retry_after: str | None = None,
        permanent: bool = False,
    ) -> Failure:
        """Return the failure of an answer with an error status.

        `blamed` is the field of the request the endpoint named, `retry_after` its header of
        that name; `permanent` marks a status that is usually transient but not this time.
        """
        words = endpoint.short(message)
        transient = (status in _TRANSIENT or (status >= 500 and status != _NOT_IMPLEMENTED)) and not permanent
        if transient:
            failed = f"{endpoint.shown} kept failing with HTTP {status} ({words})"
            error: JiyiError = self.unreachable(f"{failed}: try again later, or see the endpoint's own log")
        else:
            advice = self.advice.get(status) or _ADVICE_BY_STATUS.get(status, self.other_advice)
            error = self.refused(f"{endpoint.shown} refused with HTTP {status} ({words}): {advice}")
        return Failure(error, transient, _parse_retry_after(retry_after), status, blamed or words)

    def unusable(self, endpoint: Endpoint, reason: object, body: bytes) -> Failure:
        """Return the failure of an answer of the wrong form; `reason` says what is wrong with it."""
        begins = endpoint.short(body.decode("utf-8", "replace"))
        problem = f"{self.misfit}: {endpoint.short(str(reason))}; {self.misfit_advice}"
        return Failure(self.refused(f"{endpoint.shown} {problem}; the answer begins: {begins}"))


_breakers: dict[tuple[str, str, str, type[JiyiError]], Breaker] = {}


def get_breaker(endpoint: Endpoint, model: str, faults: Faults) -> Breaker:
    """Return the breaker of this model and key; all adapters of one kind in this process share it."""
    return _breakers.setdefault((endpoint.url, endpoint.key, model, faults.unreachable), Breaker())


def skipped_endpoints() -> list[str]:
    """Return, for each endpoint that this process skips now, why and for how long."""
    return [reason for breaker in list(_breakers.values()) if (reason := breaker.skipped)]


def retry(
    ask: Callable[[float, int], _T],
    breaker: Breaker,
    *,
    retries: int,
    time_limit: float = float("inf"),
    probing: bool | None = None,
) -> _T:
    """Return what `ask` returns, trying again after transient failures.

    `ask(left, attempt)` gets the seconds left and the number of the try, from 1, and raises `Failure`. Pauses
    are what the endpoint asked for, else half a second, doubled each time up to eight seconds, less up to a
    quarter at random so that many clients do not come back together. When a pause would not end before
    `time_limit` seconds are over or takes more than two minutes, or after `retries` further tries, the
    failure's own error is raised, and `breaker` may skip the endpoint from then on, without asking it at all.
    A caller that has entered the breaker already passes its answer as `probing`.
    """
    probing = breaker.enter() if probing is None else probing
    started = time.monotonic()
    deadline, attempt = started + time_limit, 0
    while True:
        attempt += 1
        try:
            answer = ask(float("inf") if probing else max(deadline - time.monotonic(), 0.001), attempt)
        except Failure as error:
            failure = error
        else:
            breaker.record_answer(time.monotonic() - started, time_limit, probing=probing)
            return answer
        if not failure.transient:
            breaker.record_answer(time.monotonic() - started, time_limit, probing=probing)
            raise failure.error from failure.cause
        pause = failure.after
        if pause is None:
            pause = min(_FIRST_PAUSE * 2 ** (attempt - 1), _MAX_PAUSE) * _RANDOM.uniform(0.75, 1)
        is_over = pause > _MAX_RETRY_AFTER_SECONDS or time.monotonic() + pause >= deadline
        if probing or attempt > retries or is_over:
            seconds = time.monotonic() - started
            breaker.record_failure(failure.error, seconds=seconds, probing=probing, after=failure.after)
            raise failure.error from failure.cause
        time.sleep(pause)


def retry_within(
    ask: Callable[[float, int], _T],
    breaker: Breaker,
    *,
    endpoint: Endpoint,
    faults: Faults,
    time_limit: float,
    probe_aside: bool = True,
) -> _T:
    """Do as `retry`, but give up a second after `time_limit`, whatever the endpoint does.

    With `probe_aside` the single call that tries a skipped endpoint again delays no caller: it goes on
    in the background as long as the endpoint's own timeout allows, and ends the pause if its
    answer comes within `time_limit`.
    """
    return breaker.run(
        lambda probing: retry(ask, breaker, retries=endpoint.retries, time_limit=time_limit, probing=probing),
        time_limit + _GRACE_SECONDS,
        late=lambda why: faults.unreachable(
            f"{endpoint.shown} gave no whole answer within {time_limit:.3g} s ({why}): "
            "check that it runs, or raise the time limit"
        ),
        probe_aside=probe_aside,
    )


def _parse_retry_after(retry_after: str | None) -> float | None:
    """Return the seconds of a Retry-After header; None for none, or for a date."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
