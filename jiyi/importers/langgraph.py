"""Checkpoints and stores of LangGraph, in SQLite or PostgreSQL: of each thread the newest state.

Tables as in langgraph-checkpoint-sqlite 3 and langgraph-checkpoint-postgres 3. Objects are read as data: an
extension type of MessagePack holds ``[module, name, arguments, method]`` again, and its arguments stand for
it. What was pickled is not read.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import apsw

from jiyi.errors import ImportFailed, MissingExtra
from jiyi.importers.blocks import chat_body
from jiyi.importers.entries import Entry, LeftOut, Maker, items, mapping
from jiyi.importers.sqlite import tables
from jiyi.storage.transfer.lines import NOT_JSON, Rejected
from jiyi.telling import masked, told

__all__ = ["LANGGRAPH_TABLES", "read_langgraph", "read_langgraph_server", "unpacked"]

LANGGRAPH_TABLES = {
    "checkpoints": frozenset({"thread_id", "checkpoint_ns", "checkpoint_id", "type", "checkpoint"}),
    "store": frozenset({"prefix", "key", "value", "created_at"}),
}
"""The tables, by the columns that are read."""

_NEWEST = """
SELECT thread_id, type, checkpoint FROM checkpoints AS c WHERE checkpoint_ns = '' AND checkpoint_id =
(SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = c.thread_id AND checkpoint_ns = '')
ORDER BY thread_id"""
_OTHERS = "SELECT count(DISTINCT thread_id || checkpoint_ns) FROM checkpoints WHERE checkpoint_ns <> ''"
_ITEMS = "SELECT prefix, key, value, created_at || 'Z' FROM store ORDER BY created_at, prefix, key"
_NEWEST_ON_SERVER = """
SELECT c.thread_id, b.type, b.blob, c.checkpoint ->> 'ts', c.checkpoint -> 'channel_values' -> 'messages'
FROM (SELECT DISTINCT ON (thread_id) thread_id, checkpoint FROM checkpoints WHERE checkpoint_ns = ''
      ORDER BY thread_id, checkpoint_id DESC) AS c
LEFT JOIN checkpoint_blobs AS b ON b.thread_id = c.thread_id AND b.checkpoint_ns = ''
     AND b.channel = 'messages' AND b.version = c.checkpoint -> 'channel_versions' ->> 'messages'
ORDER BY c.thread_id"""
_ITEMS_ON_SERVER = "SELECT prefix, key, value, created_at FROM store ORDER BY created_at, prefix, key"
_SUBGRAPHS = "states of subgraphs"
_OBJECTS = range(6)  # extension types with a module, a name and arguments
_DEEPEST = 100  # objects in objects
_LONGEST_KEY = 1_000  # characters of a key that is no text


def read_langgraph(db: apsw.Connection, make: Maker) -> Iterator[Entry]:
    """Read a file: messages of each thread's newest checkpoint, and the items of the store.

    Raises:
        MissingExtra: msgpack is not installed.
    """
    there = tables(db)
    if LANGGRAPH_TABLES["checkpoints"] <= there.get("checkpoints", frozenset()):
        for thread, kind, data in db.execute(_NEWEST):
            state = _value(f"checkpoints {thread}", kind, data)
            if isinstance(state, Rejected):
                yield state
            else:
                channels = mapping(mapping(state).get("channel_values"))
                yield from _messages(str(thread), channels.get("messages"), mapping(state).get("ts"), make)
        if others := db.execute(_OTHERS).fetchall()[0][0]:
            yield LeftOut(_SUBGRAPHS, int(others))
    if LANGGRAPH_TABLES["store"] <= there.get("store", frozenset()):
        yield from _items(db.execute(_ITEMS), make)


def read_langgraph_server(url: str, make: Maker) -> Iterator[Entry]:
    """Read a database on a server, as of one moment, within a transaction that cannot write.

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
            found = "SELECT to_regclass('checkpoints') IS NOT NULL, to_regclass('store') IS NOT NULL"
            threads, store = db.execute(found).fetchone() or (False, False)
            if not (threads or store):
                raise ImportFailed(f"{masked(url)} holds no checkpoints and no store of LangGraph")
            with db.cursor("threads") as rows:
                for thread, kind, blob, date, inline in rows.execute(_NEWEST_ON_SERVER) if threads else ():
                    value = inline if kind is None else _value(f"checkpoints {thread}", kind, blob)
                    if isinstance(value, Rejected):
                        yield value
                    else:
                        yield from _messages(str(thread), value, date, make)
            if store:
                with db.cursor("items") as rows:
                    yield from _items(rows.execute(_ITEMS_ON_SERVER), make)
    except psycopg.Error as error:
        raise ImportFailed(f"{masked(url)} cannot be read: {told(str(error).strip(), 300)}") from error


def _value(where: str, kind: object, data: object) -> Any:
    """Return what was stored, or why it cannot be read."""
    try:
        if kind == "msgpack" and isinstance(data, bytes):
            return unpacked(data)
        if kind == "json" and isinstance(data, bytes | str):
            return _plain(json.loads(data))
    except NOT_JSON as error:
        return Rejected.because(where, f"{kind}: {error}")
    if kind == "empty" or data is None:
        return None
    return Rejected.because(where, f"stored as {str(kind)[:40]}, which is not read: it could run code")


def unpacked(data: bytes, depth: int = 0) -> Any:
    """Return the value that MessagePack stands for; nothing is called.

    Raises:
        MissingExtra: msgpack is not installed.
        ValueError: it is cut off, nested too deep, or no MessagePack.
    """
    try:
        import msgpack
    except ImportError as error:
        raise MissingExtra('reading LangGraph needs a package: pip install "jiyi[langgraph]"') from error
    if depth > _DEEPEST:
        raise ValueError("nested too deep")

    def arguments(code: int, inner: bytes) -> Any:
        held = unpacked(inner, depth + 1) if code in _OBJECTS else None
        return held[2] if isinstance(held, list) and len(held) > 2 else None

    def named(key: object) -> str:
        name = key if isinstance(key, str) else repr(key)
        if name is not key and len(name) > _LONGEST_KEY:
            raise ValueError("maps as keys of maps: their names double with each level")
        return name

    def keyed(pairs: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
        return {named(key): value for key, value in pairs}

    try:
        return msgpack.unpackb(
            data,
            ext_hook=arguments,
            object_pairs_hook=keyed,
            strict_map_key=False,
            unicode_errors="replace",
            timestamp=1,  # as a number
        )
    except ValueError as error:
        raise ValueError("no MessagePack, or cut off, or nested too deep") from error


def _plain(value: Any) -> Any:
    """Return JSON in which objects of LangChain are their arguments, with ``type`` for the class."""
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "constructor" and "lc" in value:
        name = str((items(value.get("id")) or [""])[-1])
        return {"type": name, **mapping(_plain(value.get("kwargs")))}
    return {key: _plain(inner) for key, inner in value.items()}


def _messages(thread: str, messages: object, date: object, make: Maker) -> Iterator[Entry]:
    if not items(messages):
        yield LeftOut("threads without messages")
    for number, message in enumerate(items(messages)):
        where = f"thread {thread[:100]} messages[{number}]"
        given = mapping(message)
        if not given.get("type"):
            yield Rejected(where=where, reason="no message of LangChain")
            continue
        body, left = chat_body(given)
        yield from map(LeftOut, left)
        yield make.message(where, body, id=make.hashed(thread, given.get("id"), body), talk=thread, date=date)


def _items(rows: Iterable[tuple[Any, ...]], make: Maker) -> Iterator[Entry]:
    for prefix, key, value, date in rows:
        where = f"store {prefix}/{key}"[:200]
        try:
            held = json.loads(value) if isinstance(value, str | bytes) else value
        except NOT_JSON as error:
            yield Rejected.because(where, f"not JSON: {error}")
            continue
        yield make.item(where, str(prefix).split("."), str(key), held, date=date)
