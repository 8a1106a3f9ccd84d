"""Passages: a hit with what was said just before and behind it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from jiyi.records import Hit, Message, Query, Scope
from jiyi.storage import Store

__all__ = ["with_surroundings"]


def with_surroundings(store: Store, scope: Scope, hits: Sequence[Hit], steps: int) -> list[Hit]:
    """Return the hits, each message with up to ``steps`` messages of its session on either side.

    ``Hit.around`` holds them in the order they were said, without the hit's own. Where the
    surroundings of hits overlap, the better hit has the shared messages, and a message that
    is a hit itself is nobody's neighbour. Neighbours lie within ``scope``.
    """
    shown = {hit.id for hit in hits if isinstance(hit.record, Message)}
    found = []
    for hit in hits:
        message = hit.record
        if not isinstance(message, Message) or message.scope is None or message.seq is None:
            found.append(hit)
            continue
        query = Query(
            scope=replace(scope, session_id=message.scope.session_id),
            kinds=("message",),
            after_seq=message.seq - steps - 1,
            before_seq=message.seq + steps + 1,
            limit=2 * steps + 1,
        )
        beside = [m for m in cast("list[Message]", store.find(query)) if m.id not in shown]
        shown.update(m.id for m in beside)
        found.append(replace(hit, around=tuple(beside)))
    return found
