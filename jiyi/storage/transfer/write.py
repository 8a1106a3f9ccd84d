"""Writing records into a memory as they were: nothing twice, and nothing over what is there."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TypeVar, cast

from jiyi.errors import DuplicateId, InputError
from jiyi.records import Kind, Message, Query, Record, Scope, Session, Summary, Task
from jiyi.records.checks import new_id
from jiyi.storage.backend import Backend
from jiyi.storage.candidates import Key
from jiyi.storage.store import Store
from jiyi.storage.transfer.pieces import Entry, Part, compared, key_of
from jiyi.storage.trash import Discarded
from jiyi.storage.upkeep import Words

__all__ = ["Refused", "Written", "parts_of", "put_or_refuse", "put_piece", "sessions_ending"]

_T = TypeVar("_T")

Refused = tuple[Key, str]
"""Kind and id of what was left out, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of a piece."""

    added: int  # new in the target
    known: int  # there already, the same
    refused: tuple[Refused, ...]  # left out: the target has something else in its place


def put_piece(
    source: Backend,
    target: Backend,
    scope: Scope,
    part: Part,
    items: Sequence[Entry],
    *,
    words: Mapping[str, Words],
) -> Written:
    """Put what is new into the target, in one transaction; what is there stays, even if it differs.

    Sessions whose newest message is in the piece go on at the place where they do in the source.
    ``words`` are the analysed words of messages, by id.
    """

    def put() -> Written:
        new, differing = compared(target, scope, part, items)
        write = partial(_write, target, scope, part, words)
        refused = put_or_refuse(target.store, new, write, InputError)
        if part == "message":
            _keep_places(source, target, scope, cast("Sequence[Message]", items))
        return Written(
            added=len(new) - len(refused),
            known=len(items) - len(new) - len(differing),
            refused=(
                *((key_of(item), "it differs from the one that is there") for item in differing),
                *((key_of(item), str(error)) for item, error in refused),
            ),
        )

    return target.store.together(put, repeatable=True)


def sessions_ending(
    source: Backend, target: Backend, scope: Scope, messages: Sequence[Message]
) -> Iterator[tuple[Session, Session | None]]:
    """Give the source's sessions whose newest message is among these, each with the target's."""
    newest: dict[str, Message] = {}
    for message in messages:  # they are in the order of time
        newest[_session_of(message)] = message
    ended = {
        id_: session
        for id_, session in _sessions(source, scope, tuple(newest)).items()
        if session.last_active_at == newest[id_].created_at
    }
    there = _sessions(target, scope, tuple(ended))
    for id_, session in ended.items():
        yield session, there.get(id_)


def put_or_refuse(
    store: Store, items: Sequence[_T], put: Callable[[Sequence[_T]], None], errors: type[ValueError]
) -> list[tuple[_T, ValueError]]:
    """Put items in one transaction; where one is refused, put the others; return the refused with why.

    Args:
        store: where they go.
        items: in this order.
        put: puts some of them, or raises one of ``errors``.
        errors: what refuses an item; anything else is raised.
    """
    if not items:
        return []
    try:
        with store.transaction():
            put(items)
    except errors as error:
        if len(items) == 1:
            return [(items[0], error)]
        half = len(items) // 2
        return [
            *put_or_refuse(store, items[:half], put, errors),
            *put_or_refuse(store, items[half:], put, errors),
        ]
    return []


def parts_of(record: Record) -> Sequence[Record]:
    """Return what `Store.put` takes for a record: a task and its steps apart."""
    return (replace(record, steps=()), *record.steps) if isinstance(record, Task) else (record,)


def _write(
    target: Backend, scope: Scope, part: Part, words: Mapping[str, Words], items: Sequence[Entry]
) -> None:
    if part == "trash":
        _put_discarded(target, scope, cast("Sequence[Discarded]", items))
    elif part == "message":
        _put_messages(target, cast("Sequence[Message]", items), words)
    elif part == "summary":
        _put_summaries(target, scope, cast("Sequence[Summary]", items))
    else:
        _put_records(target, cast("Sequence[Record]", items))


def _put_records(target: Backend, records: Sequence[Record]) -> None:
    target.store.put([part for record in records for part in parts_of(record)])


def _put_messages(target: Backend, messages: Sequence[Message], words: Mapping[str, Words]) -> None:
    for message, stored in zip(messages, target.upkeep.put_back(messages, words=words), strict=True):
        if stored.seq != message.seq:
            raise DuplicateId(
                f"place {message.seq} of session {_session_of(message)!r} is taken by another message"
            )


def _put_summaries(target: Backend, scope: Scope, summaries: Sequence[Summary]) -> None:
    for summary in summaries:
        bridge = _bridge(target, scope, summary)
        target.store.put([*bridge, summary])
        if bridge:
            ids = tuple(version.id for version in bridge)
            target.store.delete(Query(scope=scope, kinds=("summary",), ids=ids, limit=len(ids)))


def _bridge(target: Backend, scope: Scope, summary: Summary) -> list[Summary]:
    """Return stand-ins for earlier versions that are gone: each version builds on the one before it."""
    if summary.previous is None:
        return []
    last = Query(scope=scope, kinds=("summary",), ids=(summary.previous,), limit=1)
    if target.store.find(last):
        return []
    of_session = Query(scope=summary.scope, kinds=("summary",), newest_first=True, limit=1)
    found = cast("list[Summary]", target.store.find(of_session))
    head = found[0] if found and found[0].scope == summary.scope else None
    version, previous, out = head.version if head else 0, head.id if head else None, list[Summary]()
    upto_seq = head.upto_seq if head else 0
    while version < summary.version - 1:
        version += 1
        id_ = summary.previous if version == summary.version - 1 else new_id()
        out.append(replace(summary, id=id_, version=version, previous=previous, upto_seq=upto_seq, covers=()))
        previous = id_
    return out


def _put_discarded(target: Backend, scope: Scope, entries: Sequence[Discarded]) -> None:
    """Put records and discard them: they get into the trash the way everything does."""
    by_kind: dict[Kind, list[Record]] = {}
    for entry in entries:
        by_kind.setdefault(entry.kind, []).append(entry.record)
    for kind, records in by_kind.items():
        for _, id_ in target.store.named(scope.user_id, [(kind, record.id) for record in records]):
            raise DuplicateId(f"{kind} {id_!r} lies in the source's trash, but lives in the target")
        if kind == "message":
            _put_messages(target, cast("list[Message]", records), {})
        else:
            _put_records(target, records)
    for (reason, at), some in groupby(entries, lambda entry: (entry.reason, entry.discarded_at)):
        target.trash.discard(scope, [key_of(entry) for entry in some], reason=reason, at=at)


def _keep_places(source: Backend, target: Backend, scope: Scope, messages: Sequence[Message]) -> None:
    """Keep the places of forgotten messages at the end of a session from being given again."""
    for session, there in sessions_ending(source, target, scope, messages):
        if there is None or there.next_seq >= session.next_seq:
            continue
        # Insert and delete a placeholder at the last place: the session goes on after it.
        last = Message(
            role="system",
            content="",
            scope=session.scope,
            created_at=session.last_active_at,
            seq=session.next_seq - 1,
        )
        target.upkeep.put_back([last])
        target.store.delete(Query(scope=scope, kinds=("message",), ids=(last.id,), limit=1))


def _sessions(side: Backend, scope: Scope, ids: tuple[str, ...]) -> Mapping[str, Session]:
    if not ids:
        return {}
    query = Query(scope=scope, kinds=("session",), ids=ids, limit=len(ids))
    return {session.id: session for session in cast("list[Session]", side.store.find(query))}


def _session_of(message: Message) -> str:
    assert message.scope is not None
    assert message.scope.session_id is not None
    return message.scope.session_id
