"""Agent files of Letta (.af): blocks of memory and the messages of agents."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from jiyi.importers.blocks import messages_of
from jiyi.importers.entries import Entry, LeftOut, Maker, items, mapping, text
from jiyi.importers.files import Files, values
from jiyi.storage.transfer.lines import NOT_JSON, Rejected

__all__ = ["agent_file", "read_letta"]

_SAY = "send_message"  # the tool by which these agents speak
_EVENTS = ("heartbeat", "login", "system_alert", "bootup")


def agent_file(value: object) -> Mapping[str, Any]:
    """Return an agent file, also one that was written as JSON within a JSON text; empty where it is none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except NOT_JSON:
            return {}
    file = mapping(value)
    known = {"agents", "blocks"} <= file.keys() or {"core_memory", "messages"} <= file.keys()
    return file if known else {}


def read_letta(files: Files, make: Maker) -> Iterator[Entry]:
    """Read blocks as knowledge, and the messages of each agent as a conversation."""
    for name in files.names:
        for where, value in values(files, name):
            file = agent_file(value)
            if isinstance(value, Rejected) or not file:
                yield value if isinstance(value, Rejected) else Rejected(where=where, reason="no agent file")
                continue
            agents = [mapping(one) for one in items(file.get("agents")) or [file]]
            owner = str(agents[0].get("name") or "agent")
            for block in map(mapping, [*items(file.get("blocks")), *items(file.get("core_memory"))]):
                yield make.knowledge(
                    f"{where} blocks",
                    f"{owner}: {block.get('label')}",
                    block.get("value"),
                    id=f"block:{make.hashed(owner, block.get('label'), block.get('value'))}",
                    origin=owner,
                    date=block.get("created_at") or file.get("created_at"),
                )
            for agent in agents:
                yield from _agent(where, agent, make)


def _agent(where: str, agent: Mapping[str, Any], make: Maker) -> Iterator[Entry]:
    name = str(agent.get("name") or "agent")
    spoken = set[object]()  # calls by which it spoke: their results say nothing
    for number, entry in enumerate(map(mapping, items(agent.get("messages")))):
        place, role = f"{where} messages[{number}]", entry.get("role")
        words, event = _unpacked(text(entry.get("content")) or text(entry.get("text")), role)
        if event or (role == "tool" and entry.get("tool_call_id") in spoken):
            yield LeftOut("events and receipts of the agent's loop")
            continue
        body: dict[str, Any] = {"role": role, "content": words}
        if role == "assistant":
            body, left = _spoken(entry, words)
            yield from map(LeftOut, left)
            spoken |= {id_ for id_ in body.pop("spoken") if isinstance(id_, str)}
        elif role == "tool":
            body["tool_call_id"] = entry.get("tool_call_id")
        origin = make.hashed(name, number, entry.get("created_at"), role, words, entry.get("tool_calls"))
        yield make.message(place, body, id=origin, talk=name, date=entry.get("created_at"), title=name)


def _unpacked(words: str, role: object) -> tuple[str, bool]:
    """Return what a user said, packed in JSON as it may be, and whether it was an event instead."""
    if role != "user" or not words.startswith("{"):
        return words, False
    try:
        packed = mapping(json.loads(words))
    except NOT_JSON:
        return words, False
    if packed.get("type") in _EVENTS:
        return words, True
    said = packed.get("message")
    return (said if packed.get("type") == "user_message" and isinstance(said, str) else words), False


def _spoken(entry: Mapping[str, Any], words: str) -> tuple[dict[str, Any], list[str]]:
    """Return a turn of the agent: what it said by its tool is its content, what stood there were thoughts."""
    bodies, left = messages_of("assistant", items(entry.get("content")) or words)
    said, calls, spoken = list[str](), list[Any](), list[object]()
    for call in map(mapping, items(entry.get("tool_calls"))):
        function = mapping(call.get("function"))
        try:
            message = mapping(json.loads(str(function.get("arguments")))).get("message")
        except NOT_JSON:
            message = None
        if function.get("name") == _SAY and isinstance(message, str):
            said.append(message)
            spoken.append(call.get("id"))
        else:
            calls.append(call)
    own = "\n".join(text(body.get("content")) for body in bodies)
    left += ["thoughts"] if said and own.strip() else []
    body: dict[str, Any] = {"role": "assistant", "content": "\n".join(said) or own, "spoken": spoken}
    return (body | {"tool_calls": calls} if calls else body), left
