"""What hangs together: calls and results, tasks and episodes, sources and what is derived from them."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from jiyi.long_term.forgetting.rows import DERIVED, Rows
from jiyi.records import Episode, Fact, Knowledge, Message, Task
from jiyi.records.atoms import atoms
from jiyi.storage import Discarded, Key

__all__ = [
    "hanging_on",
    "joined_messages",
    "key_of",
    "partners_in_trash",
    "resting_in_trash",
    "sources_of",
    "with_older_sources",
    "with_sources",
]


def key_of(entry: Discarded) -> Key:
    """Return the key of a record in the trash."""
    return entry.kind, entry.record.id


def sources_of(record: Fact | Knowledge) -> tuple[str, ...]:
    """Return the ids of the messages or episodes it rests on."""
    return record.sources if isinstance(record, Fact) else record.source_episodes


def with_sources(record: Fact | Knowledge, sources: Iterable[str]) -> Fact | Knowledge:
    """Return it resting on these."""
    ids = tuple(dict.fromkeys(sources))
    if isinstance(record, Fact):
        return replace(record, sources=ids)
    return replace(record, source_episodes=ids)


def joined_messages(messages: Iterable[Message], taken: Collection[str]) -> list[Message]:
    """Return the messages of one session that no model would accept without those that are taken."""
    ordered = sorted(messages, key=lambda message: message.seq or 0)
    out: list[Message] = []
    for atom in atoms(ordered):
        members = [ordered[place] for place in atom.indices]
        if any(message.id in taken for message in members):
            out += [message for message in members if message.id not in taken]
    return out


def hanging_on(rows: Rows, entries: Sequence[Discarded], keys: Sequence[Key] = ()) -> list[Discarded]:
    """Return what else in the trash goes for good with these entries, and with records of these keys.

    Facts and knowledge that rest on one of them, even among others, for their words may be its
    words; the task of an episode and the episode of a task; calls and results.
    """
    known = {key_of(entry) for entry in entries}
    ids = known | {key for key in keys if key[0] in ("message", "episode", "task")}
    found = {key_of(entry): entry for entry in partners_in_trash(rows, entries, ids)}
    found |= {key_of(entry): entry for entry in resting_in_trash(rows, ids | set(found))}
    return [entry for key, entry in found.items() if key not in known]


def partners_in_trash(rows: Rows, entries: Sequence[Discarded], ids: Collection[Key]) -> list[Discarded]:
    """Return the calls and results in the trash that belong to entries, and the tasks and episodes.

    Those of the tasks in ``ids`` too, but nothing that is in ``ids`` itself.
    """
    calls: dict[str, set[str]] = {}
    for entry in entries:
        record = entry.record
        if isinstance(record, Message) and (record.tool_calls or record.role == "tool") and record.scope:
            calls.setdefault(record.scope.session_id or "", set()).add(record.id)
    out: list[Discarded] = []
    for session_id, taken in calls.items():
        lying = {e.record.id: e for e in rows.in_trash(("message",), rows.user.in_session(session_id))}
        messages = cast("list[Message]", [entry.record for entry in lying.values()])
        out += [lying[message.id] for message in joined_messages(messages, taken)]
    tasks = {entry.record.task_id for entry in entries if isinstance(entry.record, Episode)}
    tasks |= {id_ for kind, id_ in ids if kind == "task"}
    for entry in rows.in_trash(("task", "episode")) if tasks else ():
        record = entry.record
        task = record.id if isinstance(record, Task) else cast("Episode", record).task_id
        if task in tasks and key_of(entry) not in ids:
            out.append(entry)
    return out


def resting_in_trash(rows: Rows, ids: Collection[Key]) -> Iterator[Discarded]:
    """Give facts and knowledge in the trash that are among these or rest on one of them."""
    for entry in rows.in_trash(tuple(DERIVED)):
        sources = sources_of(cast("Fact | Knowledge", entry.record))
        if key_of(entry) in ids or any((DERIVED[entry.kind], id_) in ids for id_ in sources):
            yield entry


def with_older_sources(rows: Rows, keys: Sequence[Key]) -> list[Fact | Knowledge]:
    """Return facts and knowledge of these keys that lie in the trash in an older form, with its sources too.

    So that the form that takes its place there is found again by each source it ever had.
    """
    out: list[Fact | Knowledge] = []
    for kind in DERIVED:
        ids = [id_ for other, id_ in keys if other == kind]
        older = {entry.record.id: entry.record for entry in rows.in_trash_by_ids(kind, ids)}
        for record in cast("list[Fact | Knowledge]", rows.of_kind(kind, list(older))):
            before = sources_of(cast("Fact | Knowledge", older[record.id]))
            out.append(with_sources(record, (*before, *sources_of(record))))
    return out
