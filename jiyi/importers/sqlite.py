"""SQLite files of other programs, never trusted; and the chats that frameworks keep in a table of one."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from jiyi.errors import ImportFailed
from jiyi.importers.blocks import chat_body
from jiyi.importers.entries import Entry, LeftOut, Maker, call_of, mapping, text
from jiyi.storage.transfer.lines import NOT_JSON, Rejected

__all__ = ["CHAT_TABLES", "foreign_database", "read_chats", "tables"]

_FLAGS = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


@contextmanager
def foreign_database(path: Path) -> Iterator[apsw.Connection]:
    """Give a database that nothing can be written to; what goes wrong in the block is an `ImportFailed`."""
    uri = f"file:{quote(str(path.absolute()))}"
    try:
        try:
            db = _opened(f"{uri}?mode=ro")
        except apsw.CantOpenError:  # in WAL mode, in a folder that cannot be written
            db = _opened(f"{uri}?immutable=1")
        try:
            yield db
        finally:
            db.close()
    except (apsw.Error, UnicodeDecodeError) as error:
        raise ImportFailed(
            f"{path} is not a sound database: {error}; try: sqlite3 {path.name} .recover | sqlite3 whole.db"
        ) from error


def _opened(uri: str) -> apsw.Connection:
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


def tables(db: apsw.Connection) -> Mapping[str, frozenset[str]]:
    """Return the columns of each table; views are none."""
    names = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL").fetchall()
    columns = "SELECT name FROM pragma_table_info(?)"
    return {str(name): frozenset(str(c) for (c,) in db.execute(columns, (name,))) for (name,) in names}


_Read = tuple[dict[str, Any], list[str]]

CHAT_TABLES: Mapping[str, frozenset[str]] = {
    "openai-agents": frozenset({"id", "session_id", "message_data", "created_at"}),
    "langchain": frozenset({"id", "session_id", "message"}),
    "llama-index": frozenset({"id", "key", "timestamp", "role", "status", "data"}),
}
"""The columns by which the tables are known, for their names can be chosen."""

_COLUMNS = {
    "openai-agents": "id, session_id, message_data, created_at || 'Z'",  # written in UTC
    "langchain": "id, session_id, message, NULL",
    "llama-index": "id, key, data, timestamp / 1e9",
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
        quoted = '"' + table.replace('"', '""') + '"'
        for id_, session, data, date in db.execute(f"SELECT {_COLUMNS[source]} FROM {quoted} ORDER BY id"):
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
