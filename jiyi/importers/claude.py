"""The export of Claude.ai: conversations.json, memories.json and projects.json."""

from collections.abc import Iterator, Mapping
from typing import Any

from jiyi.importers.blocks import messages_of
from jiyi.importers.entries import Entry, LeftOut, Maker, items, mapping
from jiyi.importers.files import Files, values
from jiyi.storage.transfer.lines import Rejected

__all__ = ["read_claude"]

_ROLES = {"human": "user", "assistant": "assistant"}


def read_claude(files: Files, make: Maker) -> Iterator[Entry]:
    """Read conversations as messages; memories, attachments and documents of projects as knowledge."""
    for name in sorted(files.names):
        if not name.endswith(".json") or name.endswith("users.json"):
            continue
        for where, value in values(files, name):
            if isinstance(value, Rejected):
                yield value
            elif isinstance(mapping(value).get("chat_messages"), list):
                yield from _conversation(where, value, make)
            elif "conversations_memory" in mapping(value) or "project_memories" in mapping(value):
                yield from _memories(where, value, make)
            elif "docs" in mapping(value) or "prompt_template" in mapping(value):
                yield from _project(where, value, make)
            else:
                yield Rejected(where=where, reason="neither a conversation nor a memory nor a project")


def _conversation(where: str, talk: Mapping[str, Any], make: Maker) -> Iterator[Entry]:
    for number, entry in enumerate(talk["chat_messages"]):
        place, said = f"{where} chat_messages[{number}]", mapping(entry)
        role = _ROLES.get(str(said.get("sender")))
        if role is None:
            yield Rejected(where=place, reason="the sender is neither human nor assistant")
            continue
        id_ = said.get("uuid") or make.hashed(talk.get("uuid"), number, said.get("text"))
        same: dict[str, Any] = {
            "talk": talk.get("uuid"),
            "date": said.get("created_at"),
            "or_date": talk.get("created_at"),
            "title": talk.get("name"),
        }
        bodies, left = messages_of(role, items(said.get("content")) or said.get("text"))
        yield from map(LeftOut, left)
        for part, body in enumerate(bodies):
            yield make.message(place, body, id=f"{id_}/{part}" if part else id_, **same)
        for part, file in enumerate(items(said.get("attachments"))):
            name, words = mapping(file).get("file_name"), mapping(file).get("extracted_content")
            yield make.knowledge(
                place, str(name), words, id=f"{id_}/file/{part}", origin=talk.get("uuid"), date=same["date"]
            )


def _memories(where: str, memories: Mapping[str, Any], make: Maker) -> Iterator[Entry]:
    """Give what Claude keeps of a user: one text, and one for each project."""
    whole = memories.get("conversations_memory")
    texts = {"": whole, **mapping(memories.get("project_memories"))}
    for project, words in texts.items():
        topic = f"Claude memory of project {project}" if project else "Claude memory"
        id_ = f"memory:{make.hashed(project, words)}"
        yield make.knowledge(where, topic, words, id=id_, origin="memories.json")


def _project(where: str, project: Mapping[str, Any], make: Maker) -> Iterator[Entry]:
    name, id_ = str(project.get("name") or "project"), project.get("uuid") or make.hashed(project)
    for key in ("description", "prompt_template"):
        yield make.knowledge(
            where, name, project.get(key), id=f"{id_}/{key}", origin=id_, date=project.get("created_at")
        )
    for number, doc in enumerate(map(mapping, items(project.get("docs")))):
        yield make.knowledge(
            f"{where} docs[{number}]",
            f"{name}: {doc.get('filename')}",
            doc.get("content"),
            id=doc.get("uuid") or f"{id_}/doc/{number}",
            origin=id_,
            date=doc.get("created_at") or project.get("created_at"),
        )
