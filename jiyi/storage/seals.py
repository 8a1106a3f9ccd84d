"""Checksums of rows: what they cover, and how they are made."""

import zlib
from collections.abc import Mapping
from typing import Any

__all__ = ["NO_RECORD", "SEALED", "seal"]

NO_RECORD = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
"""What decoding raises where bytes are damaged."""

_WHOSE = ("user_id", "agent_id", "session_id", "id")
SEALED: Mapping[str, tuple[str, ...]] = {
    "message": (*_WHOSE, "seq", "created_at"),
    "episode": (*_WHOSE, "created_at", "task_id", "outcome"),
    "knowledge": (*_WHOSE, "created_at", "updated_at"),
    "fact": (
        *(*_WHOSE, "created_at", "status", "valid_from", "valid_to"),
        *("supersedes", "superseded_by"),
    ),
    "item": (*_WHOSE, "created_at", "updated_at"),
    "task": (*_WHOSE, "status", "started_at", "updated_at", "completed_at"),
    "step": ("user_id", "task_id", "id", "status"),
    "summary": (*_WHOSE, "version", "upto_seq", "created_at"),
    "trash": (*_WHOSE, "kind", "discarded_at", "reason"),
}
"""The columns beside the body that a checksum covers, by what the row is of."""


def seal(kind: str, row: Mapping[str, Any]) -> int:
    """Return the checksum of a row: of whose and which it is, when, its place, and all it says.

    Left out is what changes by itself: pins, importance, confidence, counts of tokens and of use, when
    an item ends. It guards against accidents, not against forgery.
    """
    said = "\0".join([str(row.get(name)) for name in SEALED[kind]])
    return zlib.crc32(row["body"].encode(), zlib.crc32(said.encode()))
