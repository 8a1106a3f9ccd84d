"""Files that other programs export.

ChatGPT: conversations as trees, of which only the branch shown last is read; they have a ``mapping`` of nodes
with ``parent`` and ``message``, ``current_node`` and ``create_time``. Claude.ai: conversations.json,
memories.json and projects.json. Claude Code: transcripts, a file of JSON lines per session, in folders by
project. Letta: agent files (.af) with blocks of memory and the messages of agents. The official MCP memory
server: entities and relations as JSON lines.
"""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from jiyi.errors import InputError
from jiyi.importers.entries import (
    Entry,
    LeftOut,
    RecordMaker,
    as_dict,
    as_list,
    join_text,
    split_turn,
    tool_call,
)
from jiyi.importers.files import Files, read_each
from jiyi.importers.graph_words import NOTE, SPEAKER, TYPE
from jiyi.storage.transfer.files import NOT_JSON, Rejected


def read_claude(files: Files, make: RecordMaker) -> Iterator[Entry]:
    """Read conversations as messages; memories, attachments and documents of projects as knowledge."""
    names = (name for name in files.matching("*.json") if not name.endswith("users.json"))
    return read_each(files, names, partial(_read_value, make))


def _read_value(make: RecordMaker, where: str, value: object) -> Iterator[Entry]:
    fields = as_dict(value)
    if isinstance(fields.get("chat_messages"), list):
        return _conversation(where, fields, make)
    if "conversations_memory" in fields or "project_memories" in fields:
        return _memories(where, fields, make)
    if "docs" in fields or "prompt_template" in fields:
        return _project(where, fields, make)
    raise InputError("neither a conversation nor a memory nor a project")


def _conversation(where: str, conversation: Mapping[str, Any], make: RecordMaker) -> Iterator[Entry]:
    for number, entry in enumerate(conversation["chat_messages"]):
        place, message = f"{where} chat_messages[{number}]", as_dict(entry)
        role = {"human": "user", "assistant": "assistant"}.get(str(message.get("sender")))
        if role is None:
            yield Rejected(where=place, reason="the sender is neither human nor assistant")
            continue
        id_ = message.get("uuid") or make.hash_id(conversation.get("uuid"), number, message.get("text"))
        session, date, title = conversation.get("uuid"), message.get("created_at"), conversation.get("name")
        sent = make.date(date) or conversation.get("created_at")
        turn = split_turn(role, as_list(message.get("content")) or message.get("text"))
        yield from make.turn(place, turn, id=id_, session=session, date=sent, title=title)
        for part, file in enumerate(as_list(message.get("attachments"))):
            name, text = as_dict(file).get("file_name"), as_dict(file).get("extracted_content")
            yield make.knowledge(place, str(name), text, id=f"{id_}/file/{part}", origin=session, date=date)


def _memories(where: str, memories: Mapping[str, Any], make: RecordMaker) -> Iterator[Entry]:
    texts = {"": memories.get("conversations_memory"), **as_dict(memories.get("project_memories"))}
    for project, text in texts.items():
        topic = f"Claude memory of project {project}" if project else "Claude memory"
        id_ = f"memory:{make.hash_id(project, text)}"
        yield make.knowledge(where, topic, text, id=id_, origin="memories.json")


def _project(where: str, project: Mapping[str, Any], make: RecordMaker) -> Iterator[Entry]:
    name, id_ = str(project.get("name") or "project"), project.get("uuid") or make.hash_id(project)
    date = project.get("created_at")
    for key in ("description", "prompt_template"):
        yield make.knowledge(where, name, project.get(key), id=f"{id_}/{key}", origin=id_, date=date)
    for number, doc in enumerate(map(as_dict, as_list(project.get("docs")))):
        place, topic = f"{where} docs[{number}]", f"{name}: {doc.get('filename')}"
        doc_id, doc_date = doc.get("uuid") or f"{id_}/doc/{number}", doc.get("created_at") or date
        yield make.knowledge(place, topic, doc.get("content"), id=doc_id, origin=id_, date=doc_date)


_SKIPPED_FLAGS = {
    "isSidechain": "messages of subagents",
    "isMeta": "messages of the program",
    "isCompactSummary": "summaries of what stands in full",
    "isApiErrorMessage": "messages of the program",
}
_COMMAND_PREFIXES = ("<command-", "<local-command-", "<bash-")  # commands at the prompt are no messages


def is_transcript(line: object) -> bool:
    """Return whether a line belongs to a transcript."""
    entry = as_dict(line)
    return "leafUuid" in entry or "sessionId" in entry or entry.get("type") == "file-history-snapshot"


def read_claude_code(files: Files, make: RecordMaker) -> Iterator[Entry]:
    """Read the sessions of a folder such as ``~/.claude/projects``, or one transcript."""
    for name in files.matching("*.jsonl"):
        yield from read_each(files, [name], partial(_read_line, make, {}))


def _read_line(make: RecordMaker, labels: dict[str, Any], where: str, line: object) -> Iterator[Entry]:
    """Yield the messages of a line; ``labels`` holds the title that the lines of the file gave so far."""
    entry = as_dict(line)
    if entry.get("type") in ("summary", "ai-title", "custom-title"):
        labels["title"] = entry.get("summary") or entry.get("aiTitle") or entry.get("customTitle")
    elif entry.get("type") in ("user", "assistant"):
        session, date, message = entry.get("sessionId"), entry.get("timestamp"), as_dict(entry.get("message"))
        id_ = entry.get("uuid") or make.hash_id(session, date, message.get("content"))
        origin = {"model": message.get("model"), "folder": entry.get("cwd")}
        own = labels | {name: text for name, text in origin.items() if isinstance(text, str)}
        yield from make.turn(where, parse_turn(entry), id=id_, session=session, date=date, **own)
    elif is_transcript(entry) or "type" in entry:
        yield LeftOut(f"lines of type {str(entry.get('type'))[:40]}")
    else:
        raise InputError("no line of a transcript")


def parse_turn(line: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the messages of a user's or assistant's line, and what was left out; InputError: it has none."""
    content = as_dict(line.get("message")).get("content")
    if not isinstance(content, str | list):
        raise InputError("a line of a user or assistant has a message with content")
    if isinstance(content, str) and content.lstrip().startswith(_COMMAND_PREFIXES):
        return [], ["commands of the prompt"]
    reason = next((reason for key, reason in _SKIPPED_FLAGS.items() if line.get(key)), None)
    return ([], [reason]) if reason else split_turn(str(line["type"]), content)


_REASONING_TYPES = ("thoughts", "reasoning_recap")
_INSTRUCTION_TOPICS = {"user_profile": "about the user", "user_instructions": "wishes for answers"}
_TEXT_KEYS = ("text", "result", "content")  # of text that is not in parts


def read_chatgpt(files: Files, make: RecordMaker) -> Iterator[Entry]:
    """Read conversations.json, which may be split into several files."""
    names = files.matching("conversations*.json") or files.matching("*.json")
    return read_each(files, names, partial(_chatgpt_conversation, make))


def _chatgpt_conversation(make: RecordMaker, where: str, value: object) -> Iterator[Entry]:
    conversation = as_dict(value)
    tree = conversation.get("mapping")
    if not isinstance(tree, Mapping):
        raise InputError("a conversation of ChatGPT has a mapping")
    branch, started = _branch(tree, conversation.get("current_node")), conversation.get("create_time")
    if others := sum(1 for id_, node in tree.items() if id_ not in branch and as_dict(node).get("message")):
        yield LeftOut("messages of other branches", others)
    calls = list[str]()
    for id_ in branch:
        if not (message := as_dict(as_dict(tree[id_]).get("message"))):
            continue
        place = f"{where} {id_[:60]}"
        content, metadata = as_dict(message.get("content")), as_dict(message.get("metadata"))
        content_type, model = content.get("content_type"), metadata.get("model_slug")
        if content_type == "user_editable_context":
            yield from _instructions(place, content, make, started)
        elif content_type in _REASONING_TYPES:
            yield LeftOut("thoughts")
        elif metadata.get("is_visually_hidden_from_conversation") or content_type == "model_editable_context":
            yield LeftOut("hidden messages")
        else:
            labels = {"title": conversation.get("title"), "model": model if isinstance(model, str) else None}
            session = conversation.get("conversation_id") or conversation.get("id")
            body, date = _chatgpt_message(message, id_, calls), make.date(message.get("create_time"))
            yield make.message(place, body, id=id_, session=session, date=date or started, **labels)


def _branch(tree: Mapping[str, Any], node_id: object) -> dict[str, None]:
    """Return the ids of the branch that ends with the newest node, oldest first."""
    if not isinstance(node_id, str) or node_id not in tree:
        node_id = next(reversed(tuple(tree)), None)
    ids = dict[str, None]()
    while isinstance(node_id, str) and node_id in tree and node_id not in ids:
        ids[node_id] = None
        node_id = as_dict(tree[node_id]).get("parent")
    return dict.fromkeys(reversed(ids))


def _chatgpt_message(message: Mapping[str, Any], id_: str, calls: list[str]) -> dict[str, Any]:
    """Return a message of Chat Completions; ``calls`` are the ids of calls without a result so far."""
    content, author = as_dict(message.get("content")), as_dict(message.get("author"))
    role, recipient = author.get("role"), message.get("recipient") or "all"
    others = (str(content[key]) for key in _TEXT_KEYS if content.get(key))
    text = join_text(content.get("parts")) or next(others, "")
    images = [part for part in map(as_dict, as_list(content.get("parts"))) if part and "text" not in part]
    text = "\n".join(filter(None, ["[image]" for _ in images] + [text]))
    if role == "assistant" and recipient != "all":
        calls.append(id_)
        return {"role": role, "content": None, "tool_calls": [tool_call(id_, str(recipient), text)]}
    if role == "tool":
        if not calls:
            return {"role": "assistant", "name": str(author.get("name") or "tool"), "content": text}
        return {"role": role, "tool_call_id": calls.pop(), "content": text}
    return {"role": role, "content": text}


def _instructions(where: str, content: Mapping[str, Any], make: RecordMaker, date: object) -> Iterator[Entry]:
    """Yield the custom instructions as knowledge; every conversation repeats them with the same ids."""
    for key, topic in _INSTRUCTION_TOPICS.items():
        title, text, origin = f"ChatGPT custom instructions: {topic}", content.get(key), "custom instructions"
        id_ = f"custom-instructions:{make.hash_id(key, text)}"
        yield make.knowledge(where, title, text, id=id_, origin=origin, date=date)


_SPEAK_TOOL = "send_message"  # the tool with which these agents speak
_EVENT_TYPES = ("heartbeat", "login", "system_alert", "bootup")


def _parse_object(text: object) -> Mapping[str, Any]:
    """Return the object that a text holds as JSON; {} if it holds none."""
    try:
        return as_dict(json.loads(str(text)))
    except NOT_JSON:
        return {}


def parse_agent_file(value: object) -> Mapping[str, Any]:
    """Return an agent file, also from JSON within a JSON string; {} if it is something else."""
    file = _parse_object(value) if isinstance(value, str) else as_dict(value)
    known = {"agents", "blocks"} <= file.keys() or {"core_memory", "messages"} <= file.keys()
    return file if known else {}


def read_letta(files: Files, make: RecordMaker) -> Iterator[Entry]:
    """Read blocks as knowledge, and the messages of each agent as a conversation."""
    return read_each(files, files.names, partial(_read_agent_file, make))


def _read_agent_file(make: RecordMaker, where: str, value: object) -> Iterator[Entry]:
    if not (file := parse_agent_file(value)):
        raise InputError("no agent file")
    agents = [as_dict(agent) for agent in as_list(file.get("agents", [file])) or [None]]
    owner = str(agents[0].get("name") or "agent")
    for block in map(as_dict, [*as_list(file.get("blocks")), *as_list(file.get("core_memory"))]):
        label, text = block.get("label"), block.get("value")
        id_ = f"block:{make.hash_id(owner, label, text)}"
        date = block.get("created_at") or file.get("created_at")
        yield make.knowledge(f"{where} blocks", f"{owner}: {label}", text, id=id_, origin=owner, date=date)
    for number, agent in enumerate(agents):
        yield from _agent_messages(f"{where} agents[{number}]", agent, make)


def _agent_messages(where: str, agent: Mapping[str, Any], make: RecordMaker) -> Iterator[Entry]:
    name = str(agent.get("name") or "agent")
    speak_calls = set[object]()  # ids of calls whose results say nothing
    if not isinstance(agent.get("messages"), list):
        yield Rejected(where=where, reason="not an agent: it has no list of messages")
    for number, entry in enumerate(map(as_dict, as_list(agent.get("messages")))):
        place, role = f"{where} messages[{number}]", entry.get("role")
        packed = join_text(entry.get("content")) or join_text(entry.get("text"))
        text, event = _unpack_user_message(packed, role)
        if event or (role == "tool" and entry.get("tool_call_id") in speak_calls):
            yield LeftOut("events and receipts of the agent's loop")
            continue
        body: dict[str, Any] = {"role": role, "content": text}
        body |= {"tool_call_id": entry.get("tool_call_id")} if role == "tool" else {}
        if role == "assistant":
            body, left_out = _assistant_message(entry, text)
            yield from map(LeftOut, left_out)
            speak_calls |= {id_ for id_ in body.pop("spoken") if isinstance(id_, str)}
        id_ = make.hash_id(name, number, entry.get("created_at"), role, text, entry.get("tool_calls"))
        yield make.message(place, body, id=id_, session=name, date=entry.get("created_at"), title=name)


def _unpack_user_message(text: str, role: object) -> tuple[str, bool]:
    """Return the text of a user, which may be packed in JSON, and whether it is an event instead."""
    packed = _parse_object(text) if role == "user" else {}
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
        message = _parse_object(function.get("arguments")).get("message")
        if function.get("name") == _SPEAK_TOOL and isinstance(message, str):
            spoken.append(message)
            speak_calls.append(call.get("id"))
        else:
            calls.append(call)
    thoughts = "\n".join(join_text(body.get("content")) for body in bodies)
    left_out += ["thoughts"] if spoken and thoughts.strip() else []
    body: Any = {"role": "assistant", "content": "\n".join(spoken) or thoughts, "spoken": speak_calls}
    return (body | {"tool_calls": calls} if calls else body), left_out


_TRIPLE_KEYS = ("from", "relationType", "to")


def read_server_memory(files: Files, make: RecordMaker) -> Iterator[Entry]:
    """Read entities, observations and relations as the facts that the tools of `jiyi mcp` keep."""
    return read_each(files, files.matching("*.json*"), partial(_read_graph_line, make))


def _read_graph_line(make: RecordMaker, where: str, value: object) -> Iterator[Entry]:
    """Yield the facts of an entity or relation, of the observations only those that are text."""
    line = as_dict(value)
    if line.get("type") not in ("entity", "relation"):
        raise InputError("neither an entity nor a relation")
    for name in ("name",) if line["type"] == "entity" else _TRIPLE_KEYS:
        if not isinstance(line.get(name), str) or not line[name].strip():
            raise InputError(f"{name} is missing")
    observations = line.get("observations") or []
    if not isinstance(observations, list):
        raise InputError("observations is no list")
    if line["type"] == "relation":
        triples = [tuple(line[end] for end in _TRIPLE_KEYS)]
    else:
        triples = [(line["name"], TYPE, str(line.get("entityType") or "entity"))]
        triples += [(line["name"], NOTE, o) for o in observations if isinstance(o, str) and o.strip()]
    for triple in triples:
        category: Any = "attribute" if triple[1] == TYPE else "note"
        id_, origin = make.hash_id(*triple), "memory.jsonl"
        yield make.fact(where, triple, id=id_, origin=origin, category=category, speaker=SPEAKER)
