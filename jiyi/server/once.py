"""Requests with an idempotency key: done once, however often they are sent."""

import hashlib
from collections.abc import Callable

from jiyi.errors import InputError, KeyReused
from jiyi.manager import MemoryManager
from jiyi.records import Scope
from jiyi.storage import Answered

__all__ = ["check_key", "fingerprint", "once"]

_LONGEST = 255


def check_key(key: str) -> str:
    """Return an idempotency key.

    Raises:
        InputError: it is no printable ASCII of 1 to 255 characters.
    """
    if not 1 <= len(key) <= _LONGEST or not (key.isascii() and key.isprintable()):
        raise InputError(f"an Idempotency-Key is 1 to {_LONGEST} printable ASCII characters, such as a UUID")
    return key


def fingerprint(*parts: bytes) -> str:
    """Return what tells two requests apart."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def once(
    memory: MemoryManager,
    user_id: str,
    key: str,
    asked: str,
    act: Callable[[], tuple[int, bytes]],
    *,
    together: bool,
) -> tuple[int, bytes]:
    """Do something and keep what it answers for a day; a second time only answer.

    Args:
        memory: whose database keeps the answers.
        user_id: the stored id of the user it is about.
        key: the idempotency key, one user's.
        asked: the `fingerprint` of the request.
        act: does it and returns status and body; what it raises is not kept.
        together: in one transaction with the answer, so that no crash comes between. Else it is done
            before: what waits for a language model must not keep others from writing.

    Raises:
        KeyReused: the key was used for another request.
    """
    parts = memory.parts

    def answered() -> tuple[int, bytes]:
        now = parts.clock()
        known = parts.ledger.answered(user_id, key, now)
        if known is None:
            status, body = act()
            known = Answered(asked=asked, status=status, body=body.decode())
            parts.ledger.keep_answer(user_id, key, known, now)
        elif known.asked != asked:
            raise KeyReused("this Idempotency-Key was used for another request; take a new one")
        return known.status, known.body.encode()

    if not together:
        return answered()
    try:
        return parts.store.together(answered)
    except BaseException:  # windows in memory may hold what was undone
        parts.short_term.drop(Scope(user_id=user_id))
        raise
    finally:
        parts.long_term.indexer.notify()
