"""Ids: made here when the caller brings none."""

import hashlib
import secrets
import time

__all__ = ["new_id", "stable_id"]


def new_id() -> str:
    """Return a new id of 32 hex digits that sorts by time of making (the idea of UUIDv7, RFC 9562)."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def stable_id(*parts: str) -> str:
    """Return the same 32 hex digits for the same parts, on every machine."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()
