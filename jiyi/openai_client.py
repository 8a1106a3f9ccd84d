"""The client of the package `openai`: opened when first used, its errors translated once."""

import importlib.util
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from jiyi.endpoint import Endpoint, Failure, Faults
from jiyi.errors import MissingExtra
from jiyi.forks import free_after_fork

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

__all__ = ["OpenAIClient"]


class OpenAIClient:
    """Asks one endpoint once through the package `openai` (`pip install "jiyi[openai]"`).

    Making one connects to nothing and imports nothing. The key appears in no error.

    Raises:
        MissingExtra: the package `openai` is not installed; ``purpose`` says what it is needed for.
    """

    def __init__(self, endpoint: Endpoint, faults: Faults, *, purpose: str) -> None:
        if importlib.util.find_spec("openai") is None:
            raise MissingExtra(f'{purpose} need an optional package: pip install "jiyi[openai]"')
        self._endpoint = endpoint
        self._faults = faults
        self._client: OpenAI | None = None
        self._lock = free_after_fork(threading.Lock())

    def ask(self, send: Callable[["OpenAI", float], bytes], *, left: float, number: int) -> bytes:
        """Return what `send` returns; it is told the seconds to wait, at most `left` of them.

        `number` is that of the try, for the error of a silent endpoint.

        Raises:
            Failure: the endpoint failed; it carries the translated error.
        """
        client = self._opened()
        import openai

        seconds = min(self._endpoint.timeout, left)
        try:
            return send(client, seconds)
        except (openai.OpenAIError, ValueError) as error:
            failure = self._translated(error, seconds, number)
            failure.cause = self._endpoint.shareable(error)
        # Out here, so that an error that quotes the key is not kept as context either.
        raise failure

    def close(self) -> None:
        """Close the connections; a later `ask` opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _opened(self) -> "OpenAI":
        with self._lock:
            if self._client is None:
                try:
                    from openai import OpenAI
                except ImportError as error:
                    raise Failure(
                        self._faults.refused(
                            f"the package openai cannot be imported ({error}): "
                            'reinstall it with `pip install --force-reinstall "jiyi[openai]"`'
                        )
                    ) from error
                self._client = OpenAI(
                    api_key=self._endpoint.key,
                    base_url=self._endpoint.url,
                    timeout=self._endpoint.timeout,
                    max_retries=0,  # `patiently` tries again
                )
            return self._client

    def _translated(self, error: Exception, seconds: float, tries: int) -> Failure:
        import openai

        if isinstance(error, openai.APIStatusError):
            return self._faults.answered(
                self._endpoint,
                error.status_code,
                _words(error),
                blamed=error.param if isinstance(error.param, str) else "",
                retry_after=error.response.headers.get("retry-after"),
                # An exhausted account also answers 429, but waiting does not fill it.
                lasting=error.code == "insufficient_quota",
            )
        if isinstance(error, openai.APITimeoutError):
            return self._faults.silent(self._endpoint, seconds=seconds, tries=tries)
        if isinstance(error, openai.APIConnectionError):
            return self._faults.cut_off(self._endpoint, str(error.__cause__ or error), tries=tries)
        words = self._endpoint.short(str(error))
        return Failure(
            self._faults.refused(f"asking {self._endpoint.shown} failed ({words}): check the settings")
        )


def _words(error: "APIStatusError") -> str:
    body = error.body
    said = body.get("message") or body.get("detail") or body if isinstance(body, dict) else body
    return str(said or error.response.reason_phrase)
