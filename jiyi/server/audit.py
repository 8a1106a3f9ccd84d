"""The audit log: who removed, exported or changed the keys of what, without any text of a memory."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jiyi.clock import utc_now
from jiyi.server.callers import Caller
from jiyi.wire import shown_user

__all__ = ["audit", "audited"]

_log = logging.getLogger("jiyi.audit")


def audit(action: str, caller: Caller, *, user: str | None = None, **more: Any) -> None:
    """Write one line of JSON to the log ``jiyi.audit``.

    Args:
        action: "purge", "export", a verb such as "forget", or one of keys, such as "key.revoke".
        caller: who did it.
        user: the stored id of the user whose memory it is.
        more: names and numbers, no texts of a memory.
    """
    line = {
        "time": utc_now().isoformat(),
        "audit": action,
        "tenant": caller.tenant,
        "key": caller.key,
        "user": None if user is None else shown_user(user),
        **more,
    }
    _log.info(json.dumps(line, ensure_ascii=False))


@contextmanager
def audited(action: str, caller: Caller, *, user: str | None, **more: Any) -> Iterator[None]:
    """Write a line before the block and one after it with its ``outcome``.

    A "begun" without a second line means that the process ended in between.
    """
    audit(action, caller, user=user, **more, outcome="begun")
    try:
        yield
    except BaseException as error:
        audit(action, caller, user=user, **more, outcome="failed", error=type(error).__name__)
        raise
    audit(action, caller, user=user, **more, outcome="done")
