"""Checkpoints and stores of LangGraph, in SQLite or PostgreSQL; only the newest state of each thread.

Tables as in langgraph-checkpoint-sqlite 3 and langgraph-checkpoint-postgres 3. Objects are read as data: an
extension type of MessagePack holds ``[module, name, arguments, method]``, and only the arguments are kept.
Pickled values are not read.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import apsw

from jiyi.errors import ImportFailed, MissingExtra
from jiyi.importers.blocks import parse_langchain_message
from jiyi.importers.entries import Entry, LeftOut, RecordMaker, as_dict, as_list
from jiyi.importers.sqlite import table_columns
from jiyi.storage.transfer.lines import NOT_JSON, Rejected
from jiyi.telling import mask, redact

__all__ = ["LANGGRAPH_TABLES", "read_langgraph", "read_langgraph_server", "unpack"]

LANGGRAPH_TABLES = {
    "checkpoints": frozenset({"thread_id", "checkpoint_ns", "checkpoint_id", "type", "checkpoint"}),
    "store": frozenset({"prefix", "key", "value", "created_at"}),
}
"""The columns that are read, by table."""

_FILE_STATES = """
SELECT thread_id, type, checkpoint FROM checkpoints AS c WHERE checkpoint_ns = '' AND checkpoint_id =
(SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = c.thread_id AND checkpoint_ns = '')
ORDER BY thread_id"""
_SUBGRAPH_SQL = "SELECT count(DISTINCT thread_id || checkpoint_ns) FROM checkpoints WHERE checkpoint_ns <> ''"
_FILE_ITEMS = "SELECT prefix, key, value, created_at || 'Z' FROM store ORDER BY created_at, prefix, key"
_SERVER_STATES = """
SELECT c.thread_id, b.type, b.blob, c.checkpoint ->> 'ts', c.checkpoint -> 'channel_values' -> 'messages'
FROM (SELECT DISTINCT ON (thread_id) thread_id, checkpoint FROM checkpoints WHERE checkpoint_ns = ''
      ORDER BY thread_id, checkpoint_id DESC) AS c
LEFT JOIN checkpoint_blobs AS b ON b.thread_id = c.thread_id AND b.checkpoint_ns = ''
     AND b.channel = 'messages' AND b.version = c.checkpoint -> 'channel_versions' ->> 'messages'
ORDER BY c.thread_id"""
_SERVER_ITEMS = "SELECT prefix, key, value, created_at FROM store ORDER BY created_at, prefix, key"
_SUBGRAPHS = "states of subgraphs"
_OBJECT_TYPES = range(6)  # extension types with a module, a name and arguments
_MAX_DEPTH = 100  # objects in objects
_MAX_KEY_CHARS = 1_000  # of a key that is no text


def read_langgraph(db: apsw.Connection, make: RecordMaker) -> Iterator[Entry]:
    """Read a file: the messages of the newest checkpoint of each thread, and the items of the store.

    Raises:
        MissingExtra: msgpack is not installed.
    """
    columns = table_columns(db)
    if LANGGRAPH_TABLES["checkpoints"] <= columns.get("checkpoints", frozenset()):
        for thread, kind, data in db.execute(_FILE_STATES):
            state = _decode_value(f"checkpoints {thread}", kind, data)
            if isinstance(state, Rejected):
                yield state
            else:
                channels = as_dict(as_dict(state).get("channel_values"))
                yield from _messages(str(thread), channels.get("messages"), as_dict(state).get("ts"), make)
        if count := db.execute(_SUBGRAPH_SQL).fetchall()[0][0]:
            yield LeftOut(_SUBGRAPHS, int(count))
    if LANGGRAPH_TABLES["store"] <= columns.get("store", frozenset()):
        yield from _items(db.execute(_FILE_ITEMS), make)


def read_langgraph_server(url: str, make: RecordMaker) -> Iterator[Entry]:
    """Read a database on a server in one snapshot, within a transaction that cannot write.

    Raises:
        ImportFailed: it cannot be reached, or holds no checkpoints and no store.
        MissingExtra: psycopg or msgpack is not installed.
    """
    try:
        import psycopg
    except ImportError as error:
        raise MissingExtra('reading PostgreSQL needs a package: pip install "jiyi[postgres]"') from error
    try:
        with psycopg.connect(url, connect_timeout=10, options="-c default_transaction_read_only=on") as db:
            db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            query = "SELECT to_regclass('checkpoints') IS NOT NULL, to_regclass('store') IS NOT NULL"
            threads, store = db.execute(query).fetchone() or (False, False)
            if not (threads or store):
                raise ImportFailed(f"{mask(url)} holds no checkpoints and no store of LangGraph")
            with db.cursor("threads") as rows:
                for thread, kind, blob, date, inline in rows.execute(_SERVER_STATES) if threads else ():
                    value = inline if kind is None else _decode_value(f"checkpoints {thread}", kind, blob)
                    if isinstance(value, Rejected):
                        yield value
                    else:
                        yield from _messages(str(thread), value, date, make)
            if store:
                with db.cursor("items") as rows:
                    yield from _items(rows.execute(_SERVER_ITEMS), make)
    except psycopg.Error as error:
        raise ImportFailed(f"{mask(url)} cannot be read: {redact(str(error).strip(), 300)}") from error


def _decode_value(where: str, kind: object, data: object) -> Any:
    """Return a stored value, or a `Rejected` if it cannot be read."""
    try:
        if kind == "msgpack" and isinstance(data, bytes):
            return unpack(data)
        if kind == "json" and isinstance(data, bytes | str):
            return _flatten_objects(json.loads(data))
    except NOT_JSON as error:
        return Rejected.because(where, f"{kind}: {error}")
    if kind == "empty" or data is None:
        return None
    return Rejected.because(where, f"stored as {str(kind)[:40]}, which is not read: it could run code")


def unpack(data: bytes, depth: int = 0) -> Any:
    """Decode MessagePack; no object is constructed.

    Raises:
        MissingExtra: msgpack is not installed.
        ValueError: the data is cut off, nested too deep, or no MessagePack.
    """
    try:
        import msgpack
    except ImportError as error:
        raise MissingExtra('reading LangGraph needs a package: pip install "jiyi[langgraph]"') from error
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deep")

    def arguments(code: int, inner: bytes) -> Any:
        value = unpack(inner, depth + 1) if code in _OBJECT_TYPES else None
        return value[2] if isinstance(value, list) and len(value) > 2 else None

    def key_name(key: object) -> str:
        name = key if isinstance(key, str) else repr(key)
        if name is not key and len(name) > _MAX_KEY_CHARS:
            raise ValueError("maps as keys of maps: their names double with each level")
        return name

    def to_dict(pairs: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
        return {key_name(key): value for key, value in pairs}

    try:
        return msgpack.unpackb(
            data,
            ext_hook=arguments,
            object_pairs_hook=to_dict,
            strict_map_key=False,
            unicode_errors="replace",
            timestamp=1,  # as a number
        )
    except ValueError as error:
        raise ValueError("no MessagePack, or cut off, or nested too deep") from error


def _flatten_objects(value: Any) -> Any:
    """Replace the objects of LangChain in JSON by their arguments, with ``type`` for the class."""
    if isinstance(value, list):
        return [_flatten_objects(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "constructor" and "lc" in value:
        name = str((as_list(value.get("id")) or [""])[-1])
        return {"type": name, **as_dict(_flatten_objects(value.get("kwargs")))}
    return {key: _flatten_objects(inner) for key, inner in value.items()}


def _messages(thread: str, messages: object, date: object, make: RecordMaker) -> Iterator[Entry]:
    if not as_list(messages):
        yield LeftOut("threads without messages")
    for number, message in enumerate(as_list(messages)):
        where = f"thread {thread[:100]} messages[{number}]"
        fields = as_dict(message)
        if not fields.get("type"):
            yield Rejected(where=where, reason="no message of LangChain")
            continue
        body, left_out = parse_langchain_message(fields)
        yield from map(LeftOut, left_out)
        id_ = make.hash_id(thread, fields.get("id"), body)
        yield make.message(where, body, id=id_, session=thread, date=date)


def _items(rows: Iterable[tuple[Any, ...]], make: RecordMaker) -> Iterator[Entry]:
    for prefix, key, value, date in rows:
        where = f"store {prefix}/{key}"[:200]
        try:
            item = json.loads(value) if isinstance(value, str | bytes) else value
        except NOT_JSON as error:
            yield Rejected.because(where, f"not JSON: {error}")
            continue
        yield make.item(where, str(prefix).split("."), str(key), item, date=date)
