"""What in the trash hangs together: pairs, and what was derived from what."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

from jiyi.long_term.forgetting.plan import joined_messages
from jiyi.long_term.forgetting.select import find_by_ids, pieces, walk
from jiyi.records import Episode, Fact, Kind, Knowledge, Message, Query, Scope, Task
from jiyi.storage.candidates import Key
from jiyi.storage.store import Store
from jiyi.storage.trash import Discarded, Trash

__all__ = [
    "hanging_on",
    "joined_in_trash",
    "sources_of",
    "tasks_and_episodes",
    "with_older_sources",
    "with_sources",
]


def sources_of(record: Fact | Knowledge) -> tuple[str, ...]:
    """Return the ids of the messages or episodes it rests on."""
    return record.sources if isinstance(record, Fact) else record.source_episodes


def with_sources(record: Fact | Knowledge, sources: Iterable[str]) -> Fact | Knowledge:
    """Return it resting on these."""
    ids = tuple(dict.fromkeys(sources))
    if isinstance(record, Fact):
        return replace(record, sources=ids)
    return replace(record, source_episodes=ids)


def hanging_on(
    trash: Trash, user: Scope, entries: Sequence[Discarded], keys: Sequence[Key] = ()
) -> list[Discarded]:
    """Return what else in the trash goes for good with these entries, and with records of these keys.

    Facts and knowledge that rest on one of them, even among others, for their words may be its
    words; the task of an episode and the episode of a task; calls and results.
    """
    ids: set[Key] = {key for key in keys if key[0] in ("message", "episode", "task")}
    known = {(entry.kind, entry.record.id) for entry in entries}
    ids |= known
    pairs = [*joined_in_trash(trash, user, entries), *tasks_and_episodes(trash, user, entries, ids)]
    found = {(entry.kind, entry.record.id): entry for entry in pairs}
    ids |= set(found)
    for entry in walk(trash, user, ("fact", "knowledge")):
        kind: Kind = "message" if entry.kind == "fact" else "episode"
        if any((kind, id_) in ids for id_ in sources_of(cast("Fact | Knowledge", entry.record))):
            found[entry.kind, entry.record.id] = entry
    return [entry for key, entry in found.items() if key not in known]


def with_older_sources(
    store: Store, trash: Trash, user: Scope, keys: Sequence[Key]
) -> list[Fact | Knowledge]:
    """Return facts and knowledge of these keys that lie in the trash in an older form, with its sources too.

    So that the form that takes its place there is found again by each source it ever had.
    """
    out: list[Fact | Knowledge] = []
    for kind in ("fact", "knowledge"):
        for piece in pieces([id_ for other, id_ in keys if other == kind]):
            query = Query(scope=user, kinds=(kind,), ids=tuple(piece), limit=len(piece))
            older = {entry.record.id: entry.record for entry in trash.discarded(query)}
            for record in cast("list[Fact | Knowledge]", find_by_ids(store, user, kind, list(older))):
                before = sources_of(cast("Fact | Knowledge", older[record.id]))
                out.append(with_sources(record, (*before, *sources_of(record))))
    return out


def joined_in_trash(trash: Trash, user: Scope, entries: Sequence[Discarded]) -> list[Discarded]:
    """Return the calls and results in the trash that belong to messages among the entries."""
    taken: dict[str, set[str]] = {}
    for entry in entries:
        record = entry.record
        if isinstance(record, Message) and (record.tool_calls or record.role == "tool") and record.scope:
            taken.setdefault(record.scope.session_id or "", set()).add(record.id)
    out: list[Discarded] = []
    for session_id, ids in taken.items():
        lying = {e.record.id: e for e in walk(trash, user.in_session(session_id), ("message",))}
        messages = cast("list[Message]", [entry.record for entry in lying.values()])
        out += [lying[message.id] for message in joined_messages(messages, ids)]
    return out


def tasks_and_episodes(
    trash: Trash, user: Scope, entries: Sequence[Discarded], ids: set[Key]
) -> list[Discarded]:
    """Return the tasks of episodes and the episodes of tasks in the trash, without those of ``ids``."""
    tasks = {entry.record.task_id for entry in entries if isinstance(entry.record, Episode)}
    tasks |= {id_ for kind, id_ in ids if kind == "task"}
    if not tasks:
        return []
    out = []
    for entry in walk(trash, user, ("task", "episode")):
        record = entry.record
        task = record.id if isinstance(record, Task) else cast("Episode", record).task_id
        if task in tasks and (entry.kind, record.id) not in ids:
            out.append(entry)
    return out
