"""Chats that frameworks keep in a table of SQLite: OpenAI Agents, LangChain, LlamaIndex."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import apsw

from jiyi.importers.blocks import chat_body
from jiyi.importers.entries import Entry, LeftOut, Maker, call_of, mapping, text
from jiyi.importers.sqlite import rows, tables
from jiyi.storage.transfer.lines import NOT_JSON, Rejected

__all__ = ["CHAT_TABLES", "read_chats"]

_Read = tuple[dict[str, Any], list[str]]

CHAT_TABLES: Mapping[str, frozenset[str]] = {
    "openai-agents": frozenset({"id", "session_id", "message_data", "created_at"}),
    "langchain": frozenset({"id", "session_id", "message"}),
    "llama-index": frozenset({"id", "key", "timestamp", "role", "status", "data"}),
}
"""The columns by which the tables are known, for their names can be chosen."""

_COLUMNS = {
    "openai-agents": ("id", "session_id", "message_data", "created_at || 'Z'"),  # written in UTC
    "langchain": ("id", "session_id", "message", "NULL"),
    "llama-index": ("id", "key", "data", "timestamp / 1e9"),
}
_TOOL_OUTPUTS = ("function_call_output", "computer_call_output", "custom_tool_call_output")


def read_chats(db: apsw.Connection, source: str, make: Maker) -> Iterator[Entry]:
    """Read the chats of one framework, in the order in which they were written."""
    body_of = {
        "openai-agents": _item,
        "langchain": lambda message: chat_body({**mapping(message.get("data")), "type": message.get("type")}),
        "llama-index": _llama_index,
    }[source]
    for table, columns in tables(db).items():
        if not CHAT_TABLES[source] <= columns:
            continue
        for id_, session, data, date in rows(db, table, *_COLUMNS[source], order="id"):
            where = f"{table} {id_}"
            try:
                body, left = body_of(mapping(json.loads(data)))
            except (*NOT_JSON, TypeError) as error:
                yield Rejected.because(where, f"not JSON: {error}")
                continue
            yield from map(LeftOut, left)
            if body:
                hashed = make.hashed(session, id_, body)
                yield make.message(where, body, id=hashed, talk=session, date=date)


def _item(item: Mapping[str, Any]) -> _Read:
    """Return an item of the Responses API as a message; what only the API can use is left out."""
    kind = item.get("type", "message")
    if kind == "message":
        return {"role": item.get("role"), "content": text(item.get("content"))}, []
    if kind == "function_call":
        call = call_of(item.get("call_id"), item.get("name"), item.get("arguments"))
        return {"role": "assistant", "content": None, "tool_calls": [call]}, []
    if kind in _TOOL_OUTPUTS:
        output = item.get("output")
        words = output if isinstance(output, str) else text(output) or json.dumps(output)
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": words}, []
    return {}, [f"items of type {str(kind)[:40]}"]


def _llama_index(message: Mapping[str, Any]) -> _Read:
    blocks = [{"type": "text", **mapping(block)} for block in message.get("blocks") or ()]
    said = [block for block in blocks if block.get("block_type", "text") == "text"]
    more = mapping(message.get("additional_kwargs"))
    body = {"role": message.get("role"), "content": text(said) or text(message.get("content"))}
    calls = [
        call_of(block.get("tool_call_id"), block.get("tool_name"), block.get("tool_kwargs"))
        for block in blocks
        if block.get("block_type") == "tool_call"
    ]
    body |= {"tool_calls": calls or more.get("tool_calls")} if calls or more.get("tool_calls") else {}
    body |= {"tool_call_id": more.get("tool_call_id")} if body["role"] == "tool" else {}
    left = [f"blocks of type {str(b.get('block_type'))[:40]}" for b in blocks if b not in said]
    return body, [what for what in left if not what.endswith("tool_call")]
