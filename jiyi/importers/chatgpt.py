"""The export of ChatGPT: conversations as trees, of which the branch shown last is read.

Fields as in conversations.json: ``mapping`` of nodes with ``parent`` and ``message``, ``current_node``,
``create_time`` in seconds since 1970.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jiyi.importers.entries import Entry, LeftOut, Maker, call_of, items, mapping, text
from jiyi.importers.files import Files, values
from jiyi.storage.transfer.lines import Rejected

__all__ = ["read_chatgpt"]

_THOUGHTS = ("thoughts", "reasoning_recap")
_PROFILE = {"user_profile": "about the user", "user_instructions": "wishes for answers"}
_WORDS = ("text", "result", "content")  # where the words are that are not in parts


def read_chatgpt(files: Files, make: Maker) -> Iterator[Entry]:
    """Read conversations.json, also where it comes in several files."""
    for name in files.named("conversations*.json") or files.named("*.json"):
        for where, talk in values(files, name):
            if isinstance(talk, Rejected):
                yield talk
            elif isinstance(mapping(talk).get("mapping"), Mapping):
                yield from _conversation(where, talk, make)
            else:
                yield Rejected(where=where, reason="a conversation of ChatGPT has a mapping")


def _conversation(where: str, talk: Mapping[str, Any], make: Maker) -> Iterator[Entry]:
    tree = talk["mapping"]
    branch = _branch(tree, talk.get("current_node"))
    aside = sum(1 for id_, node in tree.items() if id_ not in branch and mapping(node).get("message"))
    if aside:
        yield LeftOut("messages of other branches", aside)
    calls = list[str]()
    for id_ in branch:
        message = mapping(mapping(tree[id_]).get("message"))
        if not message:
            continue
        place = f"{where} {id_[:60]}"
        content, seen = mapping(message.get("content")), mapping(message.get("metadata"))
        kind = content.get("content_type")
        talk_id = talk.get("conversation_id") or talk.get("id")
        if kind == "user_editable_context":
            yield from _instructions(place, content, make, talk.get("create_time"))
        elif kind in _THOUGHTS:
            yield LeftOut("thoughts")
        elif seen.get("is_visually_hidden_from_conversation") or kind == "model_editable_context":
            yield LeftOut("hidden messages")
        else:
            yield make.message(
                place,
                _body(message, content, id_, calls),
                id=id_,
                talk=talk_id,
                date=message.get("create_time"),
                or_date=talk.get("create_time"),
                title=talk.get("title"),
                model=seen.get("model_slug") if isinstance(seen.get("model_slug"), str) else None,
            )


def _branch(tree: Mapping[str, Any], newest: object) -> dict[str, None]:
    """Return the ids of the branch that ends with the newest node, oldest first."""
    if not isinstance(newest, str) or newest not in tree:
        newest = next(reversed(tuple(tree)), None)
    ids = dict[str, None]()
    while isinstance(newest, str) and newest in tree and newest not in ids:
        ids[newest] = None
        newest = mapping(tree[newest]).get("parent")
    return dict.fromkeys(reversed(ids))


def _body(
    message: Mapping[str, Any], content: Mapping[str, Any], id_: str, calls: list[str]
) -> dict[str, Any]:
    """Return a message as Chat Completions writes it; ``calls`` are those that wait for a result."""
    author, to = mapping(message.get("author")), message.get("recipient") or "all"
    role = author.get("role")
    words = text(content.get("parts")) or next((str(content[k]) for k in _WORDS if content.get(k)), "")
    others = [part for part in map(mapping, items(content.get("parts"))) if part and "text" not in part]
    words = "\n".join(filter(None, ["[image]" for _ in others] + [words]))
    if role == "assistant" and to != "all":
        calls.append(id_)
        return {"role": role, "content": None, "tool_calls": [call_of(id_, str(to), words)]}
    if role == "tool":
        if not calls:
            return {"role": "assistant", "name": str(author.get("name") or "tool"), "content": words}
        return {"role": role, "tool_call_id": calls.pop(), "content": words}
    return {"role": role, "content": words}


def _instructions(where: str, content: Mapping[str, Any], make: Maker, date: object) -> Iterator[Entry]:
    """Give the custom instructions, which stand in every conversation, as knowledge: once for each text."""
    for key, topic in _PROFILE.items():
        words = content.get(key)
        yield make.knowledge(
            where,
            f"ChatGPT custom instructions: {topic}",
            words,
            id=f"custom-instructions:{make.hashed(key, words)}",
            origin="custom instructions",
            date=date,
        )
