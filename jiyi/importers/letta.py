"""Agent files of Letta (.af): blocks of memory and the messages of agents."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from jiyi.importers.blocks import split_turn
from jiyi.importers.entries import Entry, LeftOut, RecordMaker, as_dict, as_list, join_text
from jiyi.importers.files import Files, iter_json_values
from jiyi.storage.transfer.lines import NOT_JSON, Rejected

__all__ = ["parse_agent_file", "read_letta"]

_SPEAK_TOOL = "send_message"  # the tool with which these agents speak
_EVENT_TYPES = ("heartbeat", "login", "system_alert", "bootup")


def parse_agent_file(value: object) -> Mapping[str, Any]:
    """Return an agent file, also from JSON within a JSON string; {} if it is none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except NOT_JSON:
            return {}
    file = as_dict(value)
    known = {"agents", "blocks"} <= file.keys() or {"core_memory", "messages"} <= file.keys()
    return file if known else {}


def read_letta(files: Files, make: RecordMaker) -> Iterator[Entry]:
    """Read blocks as knowledge, and the messages of each agent as a conversation."""
    for name in files.names:
        for where, value in iter_json_values(files, name):
            file = parse_agent_file(value)
            if isinstance(value, Rejected) or not file:
                yield value if isinstance(value, Rejected) else Rejected(where=where, reason="no agent file")
                continue
            agents = [as_dict(agent) for agent in as_list(file.get("agents")) or [file]]
            owner = str(agents[0].get("name") or "agent")
            for block in map(as_dict, [*as_list(file.get("blocks")), *as_list(file.get("core_memory"))]):
                yield make.knowledge(
                    f"{where} blocks",
                    f"{owner}: {block.get('label')}",
                    block.get("value"),
                    id=f"block:{make.hash_id(owner, block.get('label'), block.get('value'))}",
                    origin=owner,
                    date=block.get("created_at") or file.get("created_at"),
                )
            for agent in agents:
                yield from _agent_messages(where, agent, make)


def _agent_messages(where: str, agent: Mapping[str, Any], make: RecordMaker) -> Iterator[Entry]:
    name = str(agent.get("name") or "agent")
    speak_calls = set[object]()  # ids of calls whose results say nothing
    for number, entry in enumerate(map(as_dict, as_list(agent.get("messages")))):
        place, role = f"{where} messages[{number}]", entry.get("role")
        packed = join_text(entry.get("content")) or join_text(entry.get("text"))
        text, event = _unpack_user_message(packed, role)
        if event or (role == "tool" and entry.get("tool_call_id") in speak_calls):
            yield LeftOut("events and receipts of the agent's loop")
            continue
        body: dict[str, Any] = {"role": role, "content": text}
        if role == "assistant":
            body, left_out = _assistant_message(entry, text)
            yield from map(LeftOut, left_out)
            speak_calls |= {id_ for id_ in body.pop("spoken") if isinstance(id_, str)}
        elif role == "tool":
            body["tool_call_id"] = entry.get("tool_call_id")
        id_ = make.hash_id(name, number, entry.get("created_at"), role, text, entry.get("tool_calls"))
        yield make.message(place, body, id=id_, session=name, date=entry.get("created_at"), title=name)


def _unpack_user_message(text: str, role: object) -> tuple[str, bool]:
    """Return the text of a user, which may be packed in JSON, and whether it is an event instead."""
    if role != "user" or not text.startswith("{"):
        return text, False
    try:
        packed = as_dict(json.loads(text))
    except NOT_JSON:
        return text, False
    if packed.get("type") in _EVENT_TYPES:
        return text, True
    message = packed.get("message")
    return (message if packed.get("type") == "user_message" and isinstance(message, str) else text), False


def _assistant_message(entry: Mapping[str, Any], text: str) -> tuple[dict[str, Any], list[str]]:
    """Return a turn of the agent: the content is what it said with its tool, the text was thoughts."""
    bodies, left_out = split_turn("assistant", as_list(entry.get("content")) or text)
    spoken, calls, speak_calls = list[str](), list[Any](), list[object]()
    for call in map(as_dict, as_list(entry.get("tool_calls"))):
        function = as_dict(call.get("function"))
        try:
            message = as_dict(json.loads(str(function.get("arguments")))).get("message")
        except NOT_JSON:
            message = None
        if function.get("name") == _SPEAK_TOOL and isinstance(message, str):
            spoken.append(message)
            speak_calls.append(call.get("id"))
        else:
            calls.append(call)
    thoughts = "\n".join(join_text(body.get("content")) for body in bodies)
    left_out += ["thoughts"] if spoken and thoughts.strip() else []
    content = "\n".join(spoken) or thoughts
    body: dict[str, Any] = {"role": "assistant", "content": content, "spoken": speak_calls}
    return (body | {"tool_calls": calls} if calls else body), left_out
