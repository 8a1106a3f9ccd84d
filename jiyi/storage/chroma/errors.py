"""Chroma's errors in jiyi's own words."""

import contextlib
import re
from collections.abc import Iterator

import httpx
from chromadb.errors import ChromaError, InvalidDimensionException, NotFoundError

from jiyi.errors import DiskFull, EmbedderMismatch, IndexUnreachable, JiyiError, StorageError

__all__ = ["CollectionMissing", "translated"]

_DIMS = re.compile(r"dimension of (\d+), got (\d+)")


class CollectionMissing(StorageError):
    """A collection that is not there."""


@contextlib.contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise what Chroma, the network and the disk raise inside as errors of `jiyi.errors`.

    Args:
        place: the folder or the server, for the message.
    """
    try:
        yield
    except JiyiError:
        raise
    except NotFoundError as error:
        raise CollectionMissing(
            f"{place}: {error}; vectors that are gone are made anew after: jiyi doctor --repair"
        ) from error
    except (ChromaError, httpx.HTTPError, ValueError, OSError, RuntimeError, TypeError) as error:
        raise _translate(error, place) from error


def _translate(error: Exception, place: str) -> Exception:
    dims = _DIMS.search(str(error))
    if dims or isinstance(error, InvalidDimensionException):
        held, got = dims.groups() if dims else ("other", "some")
        return EmbedderMismatch(
            f"{place} holds vectors of {held} numbers, these have {got}; "
            "open it with the embedder that made them"
        )
    words = str(error) or type(error).__name__
    if isinstance(error, httpx.TransportError) or "Could not connect" in words:
        return IndexUnreachable(
            f"no Chroma server answers at {place} ({words}); start it with: chroma run - "
            "what is saved meanwhile gets its vectors later, and words are searched without them"
        )
    if isinstance(error, httpx.HTTPStatusError) and error.response.status_code >= 500:
        return IndexUnreachable(f"the Chroma server at {place} fails ({words}); look at its log")
    if "database or disk is full" in words or "No space left" in words:
        return DiskFull(f"no space left for {place}; free some space, the vectors follow then")
    return StorageError(f"Chroma at {place} failed ({words}); look for drift with: jiyi doctor")
