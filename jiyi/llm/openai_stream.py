"""Reads a stream through the package `openai`: text to the relay, the whole answer in the end."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jiyi.llm.relay import Relay
from jiyi.llm.streaming import Assembly, BrokenOff, WithoutThoughts, lines_of

if TYPE_CHECKING:
    from openai import OpenAI

__all__ = ["read_stream"]


def read_stream(client: "OpenAI", request: Mapping[str, Any], relay: Relay) -> bytes:
    """Ask for a stream, tell the relay its text without thoughts, and return the whole answer.

    Raises:
        openai.OpenAIError: the endpoint failed, or its answer broke off.
        GivenUp: nobody waits for the text any more.
    """
    import openai

    assembly, spoken = Assembly(), WithoutThoughts()
    with client.chat.completions.with_streaming_response.create(**request) as response:
        try:
            for line in lines_of(_chunks(response, relay)):
                relay(spoken(assembly.feed(line)))
                if assembly.ended:
                    break
            body = assembly.body()
        except BrokenOff as error:
            raise openai.APIConnectionError(message=str(error), request=response.http_request) from None
        relay(spoken.rest())
    return body


def _chunks(response: Any, relay: Relay) -> Iterator[bytes]:
    """Yield the bytes of an answer as they come; faults of the connection get the package's own names."""
    import openai

    chunks = response.iter_bytes()
    while True:
        relay.check()
        try:
            chunk = next(chunks)
        except StopIteration:
            return
        except openai.OpenAIError:
            raise
        # Which HTTP package lies below, and so what it raises, depends on the version of openai.
        except Exception as error:
            if "Timeout" in type(error).__name__:
                raise openai.APITimeoutError(response.http_request) from error
            raise openai.APIConnectionError(request=response.http_request) from error
        yield chunk
