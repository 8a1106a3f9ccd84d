"""The export of Claude.ai: conversations.json, memories.json and projects.json."""

from collections.abc import Iterator, Mapping
from typing import Any

from jiyi.importers.blocks import split_turn
from jiyi.importers.entries import Entry, LeftOut, RecordMaker, as_dict, as_list
from jiyi.importers.files import Files, iter_json_values
from jiyi.storage.transfer.lines import Rejected

__all__ = ["read_claude"]

_ROLES = {"human": "user", "assistant": "assistant"}


def read_claude(files: Files, make: RecordMaker) -> Iterator[Entry]:
    """Read conversations as messages; memories, attachments and documents of projects as knowledge."""
    for name in sorted(files.names):
        if not name.endswith(".json") or name.endswith("users.json"):
            continue
        for where, value in iter_json_values(files, name):
            if isinstance(value, Rejected):
                yield value
            elif isinstance(as_dict(value).get("chat_messages"), list):
                yield from _conversation(where, value, make)
            elif "conversations_memory" in as_dict(value) or "project_memories" in as_dict(value):
                yield from _memories(where, value, make)
            elif "docs" in as_dict(value) or "prompt_template" in as_dict(value):
                yield from _project(where, value, make)
            else:
                yield Rejected(where=where, reason="neither a conversation nor a memory nor a project")


def _conversation(where: str, conversation: Mapping[str, Any], make: RecordMaker) -> Iterator[Entry]:
    for number, entry in enumerate(conversation["chat_messages"]):
        place, message = f"{where} chat_messages[{number}]", as_dict(entry)
        role = _ROLES.get(str(message.get("sender")))
        if role is None:
            yield Rejected(where=place, reason="the sender is neither human nor assistant")
            continue
        id_ = message.get("uuid") or make.hash_id(conversation.get("uuid"), number, message.get("text"))
        shared: dict[str, Any] = {
            "session": conversation.get("uuid"),
            "date": message.get("created_at"),
            "fallback_date": conversation.get("created_at"),
            "title": conversation.get("name"),
        }
        bodies, left_out = split_turn(role, as_list(message.get("content")) or message.get("text"))
        yield from map(LeftOut, left_out)
        for part, body in enumerate(bodies):
            yield make.message(place, body, id=f"{id_}/{part}" if part else id_, **shared)
        for part, file in enumerate(as_list(message.get("attachments"))):
            name, text = as_dict(file).get("file_name"), as_dict(file).get("extracted_content")
            origin, date = shared["session"], shared["date"]
            yield make.knowledge(place, str(name), text, id=f"{id_}/file/{part}", origin=origin, date=date)


def _memories(where: str, memories: Mapping[str, Any], make: RecordMaker) -> Iterator[Entry]:
    """Yield the memory of the user, and one for each project."""
    texts = {"": memories.get("conversations_memory"), **as_dict(memories.get("project_memories"))}
    for project, text in texts.items():
        topic = f"Claude memory of project {project}" if project else "Claude memory"
        id_ = f"memory:{make.hash_id(project, text)}"
        yield make.knowledge(where, topic, text, id=id_, origin="memories.json")


def _project(where: str, project: Mapping[str, Any], make: RecordMaker) -> Iterator[Entry]:
    name, id_ = str(project.get("name") or "project"), project.get("uuid") or make.hash_id(project)
    for key in ("description", "prompt_template"):
        yield make.knowledge(
            where, name, project.get(key), id=f"{id_}/{key}", origin=id_, date=project.get("created_at")
        )
    for number, doc in enumerate(map(as_dict, as_list(project.get("docs")))):
        yield make.knowledge(
            f"{where} docs[{number}]",
            f"{name}: {doc.get('filename')}",
            doc.get("content"),
            id=doc.get("uuid") or f"{id_}/doc/{number}",
            origin=id_,
            date=doc.get("created_at") or project.get("created_at"),
        )
