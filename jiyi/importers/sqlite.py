"""SQLite files of other programs, which are not trusted, and the chats that frameworks keep in them."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from jiyi.errors import ImportFailed
from jiyi.importers.blocks import parse_langchain_message
from jiyi.importers.entries import Entry, LeftOut, RecordMaker, as_dict, join_text, tool_call
from jiyi.storage.transfer.lines import NOT_JSON, Rejected

__all__ = ["CHAT_TABLES", "open_foreign_database", "read_chats", "table_columns"]

_FLAGS = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


@contextmanager
def open_foreign_database(path: Path) -> Iterator[apsw.Connection]:
    """Open a database read-only; errors of SQLite in the block become `ImportFailed`."""
    uri = f"file:{quote(str(path.absolute()))}"
    try:
        try:
            db = _open(f"{uri}?mode=ro")
        except apsw.CantOpenError:  # WAL mode in a folder that is not writable
            db = _open(f"{uri}?immutable=1")
        try:
            yield db
        finally:
            db.close()
    except (apsw.Error, UnicodeDecodeError) as error:
        raise ImportFailed(
            f"{path} is not a sound database: {error}; try: sqlite3 {path.name} .recover | sqlite3 whole.db"
        ) from error


def _open(uri: str) -> apsw.Connection:
    db = apsw.Connection(uri, flags=_FLAGS)
    try:
        db.set_busy_timeout(5_000)
        for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "mmap_size=0"):
            db.execute(f"PRAGMA {pragma}")
        db.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except BaseException:
        db.close()
        raise
    return db


def table_columns(db: apsw.Connection) -> Mapping[str, frozenset[str]]:
    """Return the columns of each table, without views."""
    names = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL").fetchall()
    columns = "SELECT name FROM pragma_table_info(?)"
    return {str(name): frozenset(str(c) for (c,) in db.execute(columns, (name,))) for (name,) in names}


_Parsed = tuple[dict[str, Any], list[str]]

CHAT_TABLES: Mapping[str, frozenset[str]] = {
    "openai-agents": frozenset({"id", "session_id", "message_data", "created_at"}),
    "langchain": frozenset({"id", "session_id", "message"}),
    "llama-index": frozenset({"id", "key", "timestamp", "role", "status", "data"}),
}
"""The columns by which tables are recognised, since their names can be chosen."""

_COLUMNS = {
    "openai-agents": "id, session_id, message_data, created_at || 'Z'",  # written in UTC
    "langchain": "id, session_id, message, NULL",
    "llama-index": "id, key, data, timestamp / 1e9",
}
_TOOL_OUTPUTS = ("function_call_output", "computer_call_output", "custom_tool_call_output")


def read_chats(db: apsw.Connection, source: str, make: RecordMaker) -> Iterator[Entry]:
    """Read the chats of one framework in the order they were written."""
    parse = {
        "openai-agents": _parse_responses_item,
        "langchain": lambda m: parse_langchain_message({**as_dict(m.get("data")), "type": m.get("type")}),
        "llama-index": _parse_llama_index,
    }[source]
    for table, columns in table_columns(db).items():
        if not CHAT_TABLES[source] <= columns:
            continue
        quoted = '"' + table.replace('"', '""') + '"'
        for id_, session, data, date in db.execute(f"SELECT {_COLUMNS[source]} FROM {quoted} ORDER BY id"):
            where = f"{table} {id_}"
            try:
                body, left_out = parse(as_dict(json.loads(data)))
            except (*NOT_JSON, TypeError) as error:
                yield Rejected.because(where, f"not JSON: {error}")
                continue
            yield from map(LeftOut, left_out)
            if body:
                message_id = make.hash_id(session, id_, body)
                yield make.message(where, body, id=message_id, session=session, date=date)


def _parse_responses_item(item: Mapping[str, Any]) -> _Parsed:
    """Return an item of the Responses API as a message; other types of items are left out."""
    kind = item.get("type", "message")
    if kind == "message":
        return {"role": item.get("role"), "content": join_text(item.get("content"))}, []
    if kind == "function_call":
        call = tool_call(item.get("call_id"), item.get("name"), item.get("arguments"))
        return {"role": "assistant", "content": None, "tool_calls": [call]}, []
    if kind in _TOOL_OUTPUTS:
        output = item.get("output")
        text = output if isinstance(output, str) else join_text(output) or json.dumps(output)
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": text}, []
    return {}, [f"items of type {str(kind)[:40]}"]


def _parse_llama_index(message: Mapping[str, Any]) -> _Parsed:
    blocks = [{"type": "text", **as_dict(block)} for block in message.get("blocks") or ()]
    texts = [block for block in blocks if block.get("block_type", "text") == "text"]
    extra = as_dict(message.get("additional_kwargs"))
    body = {"role": message.get("role"), "content": join_text(texts) or join_text(message.get("content"))}
    calls = [
        tool_call(block.get("tool_call_id"), block.get("tool_name"), block.get("tool_kwargs"))
        for block in blocks
        if block.get("block_type") == "tool_call"
    ]
    body |= {"tool_calls": calls or extra.get("tool_calls")} if calls or extra.get("tool_calls") else {}
    body |= {"tool_call_id": extra.get("tool_call_id")} if body["role"] == "tool" else {}
    others = [b for b in blocks if b not in texts and b.get("block_type") != "tool_call"]
    return body, [f"blocks of type {str(block.get('block_type'))[:40]}" for block in others]
