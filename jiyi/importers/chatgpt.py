"""The export of ChatGPT: conversations as trees, of which only the branch shown last is read.

Fields as in conversations.json: ``mapping`` of nodes with ``parent`` and ``message``, ``current_node``,
``create_time`` in seconds since 1970.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jiyi.importers.entries import Entry, LeftOut, RecordMaker, as_dict, as_list, join_text, tool_call
from jiyi.importers.files import Files, iter_json_values
from jiyi.storage.transfer.lines import Rejected

__all__ = ["read_chatgpt"]

_REASONING_TYPES = ("thoughts", "reasoning_recap")
_INSTRUCTION_TOPICS = {"user_profile": "about the user", "user_instructions": "wishes for answers"}
_TEXT_KEYS = ("text", "result", "content")  # of text that is not in parts


def read_chatgpt(files: Files, make: RecordMaker) -> Iterator[Entry]:
    """Read conversations.json, which may be split into several files."""
    for name in files.matching("conversations*.json") or files.matching("*.json"):
        for where, conversation in iter_json_values(files, name):
            if isinstance(conversation, Rejected):
                yield conversation
            elif isinstance(as_dict(conversation).get("mapping"), Mapping):
                yield from _conversation(where, conversation, make)
            else:
                yield Rejected(where=where, reason="a conversation of ChatGPT has a mapping")


def _conversation(where: str, conversation: Mapping[str, Any], make: RecordMaker) -> Iterator[Entry]:
    tree = conversation["mapping"]
    branch = _branch(tree, conversation.get("current_node"))
    others = sum(1 for id_, node in tree.items() if id_ not in branch and as_dict(node).get("message"))
    if others:
        yield LeftOut("messages of other branches", others)
    calls = list[str]()
    for id_ in branch:
        message = as_dict(as_dict(tree[id_]).get("message"))
        if not message:
            continue
        place = f"{where} {id_[:60]}"
        content, metadata = as_dict(message.get("content")), as_dict(message.get("metadata"))
        content_type = content.get("content_type")
        session = conversation.get("conversation_id") or conversation.get("id")
        if content_type == "user_editable_context":
            yield from _instructions(place, content, make, conversation.get("create_time"))
        elif content_type in _REASONING_TYPES:
            yield LeftOut("thoughts")
        elif metadata.get("is_visually_hidden_from_conversation") or content_type == "model_editable_context":
            yield LeftOut("hidden messages")
        else:
            yield make.message(
                place,
                _body(message, id_, calls),
                id=id_,
                session=session,
                date=message.get("create_time"),
                fallback_date=conversation.get("create_time"),
                title=conversation.get("title"),
                model=metadata.get("model_slug") if isinstance(metadata.get("model_slug"), str) else None,
            )


def _branch(tree: Mapping[str, Any], node_id: object) -> dict[str, None]:
    """Return the ids of the branch that ends with the newest node, oldest first."""
    if not isinstance(node_id, str) or node_id not in tree:
        node_id = next(reversed(tuple(tree)), None)
    ids = dict[str, None]()
    while isinstance(node_id, str) and node_id in tree and node_id not in ids:
        ids[node_id] = None
        node_id = as_dict(tree[node_id]).get("parent")
    return dict.fromkeys(reversed(ids))


def _body(message: Mapping[str, Any], id_: str, calls: list[str]) -> dict[str, Any]:
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
        text = content.get(key)
        yield make.knowledge(
            where,
            f"ChatGPT custom instructions: {topic}",
            text,
            id=f"custom-instructions:{make.hash_id(key, text)}",
            origin="custom instructions",
            date=date,
        )
