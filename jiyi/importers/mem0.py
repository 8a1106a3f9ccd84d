"""What mem0 kept: the pages of ``get_all``, or a list of its memories."""

from collections.abc import Iterator, Mapping
from typing import Any

from jiyi.errors import ImportFailed
from jiyi.importers.entries import Entry, LeftOut, Maker, items, mapping
from jiyi.importers.files import Files, values
from jiyi.storage.transfer.lines import Rejected

__all__ = ["note", "read_mem0"]

_OWN = ("id", "memory", "data", "hash", "metadata", "created_at", "updated_at", "expiration_date", "score")


def read_mem0(files: Files, make: Maker) -> Iterator[Entry]:
    """Read memories as notes about the user; of a file of several users those of the one asked for.

    Raises:
        ImportFailed: it holds memories of several users, and none of the one they are imported for.
    """
    named = (mapping(memory).get("user_id") for _, memory in _memories(files))
    users = {name for name in named if isinstance(name, str)}
    mine = users & {make.scope.user_id.rpartition("//")[2]}  # a server puts the tenant before it
    if len(users) > 1 and not mine:
        raise ImportFailed(
            f"{files.root} holds memories of {len(users)} users of mem0; import it as one of them, "
            f"such as {min(users)[:40]}"
        )
    for where, memory in _memories(files):
        if isinstance(memory, Rejected):
            yield memory
        elif len(users) > 1 and mapping(memory).get("user_id") not in (None, *mine):
            yield LeftOut("memories of other users")
        else:
            yield note(where, mapping(memory), make)


def _memories(files: Files) -> Iterator[tuple[str, Any]]:
    for name in files.named("*.json"):
        for where, value in values(files, name):
            page = mapping(value).get("results") or mapping(value).get("memories")
            if isinstance(page, list):
                yield from ((f"{where} [{number}]", memory) for number, memory in enumerate(items(page)))
            elif mapping(value).get("results") != []:
                yield where, value


def note(where: str, memory: Mapping[str, Any], make: Maker) -> Entry:
    """Return a memory of mem0 as a note about the user."""
    words, who = memory.get("memory") or memory.get("data"), memory.get("actor_id") or memory.get("role")
    who = who if isinstance(who, str) and who else "user"
    labels = {**mapping(memory.get("metadata"))}
    labels |= {k: v for k, v in memory.items() if k not in (*_OWN, *labels) and v not in (None, "", [], {})}
    return make.fact(
        where,
        (who, "note", words),
        id=memory.get("id") or make.hashed(memory.get("user_id"), words),
        origin=memory.get("user_id") or memory.get("agent_id") or "mem0",
        date=memory.get("created_at"),
        ends=memory.get("expiration_date"),
        speaker=who,
        labels=labels,
    )
