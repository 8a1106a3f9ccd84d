"""Databases of other programs, which are not trusted: LangGraph, MemPalace, and the chats of frameworks.

Tables of LangGraph are as in langgraph-checkpoint-sqlite 3 and langgraph-checkpoint-postgres 3; only the
newest state of each thread is read. Its objects are read as data: an extension type of MessagePack holds
``[module, name, arguments, method]``, and only the arguments are kept. Pickled values are not read.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from jiyi.errors import ImportFailed, MissingExtra
from jiyi.importers.entries import (
    Entry,
    LeftOut,
    RecordMaker,
    as_dict,
    as_list,
    join_text,
    parse_langchain_message,
    parse_llama_index_message,
    tool_call,
)
from jiyi.storage.sql import read_statements
from jiyi.storage.transfer.files import NOT_JSON, Rejected
from jiyi.telling import mask, redact

_SQL = read_statements(__package__, "databases.sql")
_FLAGS = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


@contextmanager
def _open_foreign_database(path: Path) -> Iterator[apsw.Connection]:
    """Open a database read-only; errors of SQLite in the block become `ImportFailed`."""
    uri = f"file:{quote(str(path.absolute()))}"
    try:
        try:
            db = _open(f"{uri}?mode=ro")
        except apsw.CantOpenError:  # WAL mode in a folder that is not writable
            db = _open(f"{uri}?immutable=1")
        with closing(db):
            yield db
    except (apsw.Error, UnicodeDecodeError) as error:
        hint = f"try: sqlite3 {path.name} .recover | sqlite3 whole.db"
        raise ImportFailed(f"{path} is not a sound database: {error}; {hint}") from error


def _open(uri: str) -> apsw.Connection:
    db = apsw.Connection(uri, flags=_FLAGS)
    try:
        db.set_busy_timeout(5_000)
        db.execute(_SQL["begin"]).fetchall()
    except BaseException:
        db.close()
        raise
    return db


def _table_columns(db: apsw.Connection) -> Mapping[str, frozenset[str]]:
    names, columns = db.execute(_SQL["tables"]).fetchall(), _SQL["columns"]
    return {str(name): frozenset(str(c) for (c,) in db.execute(columns, (name,))) for (name,) in names}


_Parsed = tuple[dict[str, Any], list[str]]
_Tables = Mapping[str, frozenset[str]]

_TOOL_OUTPUTS = ("function_call_output", "computer_call_output", "custom_tool_call_output")


def _read_chats(db: apsw.Connection, make: RecordMaker) -> Iterator[Entry]:
    known_columns, selected, parse = _CHATS[make.source]
    for table, columns in _table_columns(db).items():
        if not known_columns <= columns:
            continue
        quoted = '"' + table.replace('"', '""') + '"'
        for id_, session, data, date in db.execute(f"SELECT {selected} FROM {quoted} ORDER BY id"):
            where = f"{table} {id_}"
            try:
                body, left_out = parse(as_dict(json.loads(data)))
            except (*NOT_JSON, TypeError) as error:
                yield Rejected.because(where, f"not JSON: {error}")
                continue
            hashed, bodies = make.hash_id(session, id_, body), [body] if body else []
            yield from make.turn(where, (bodies, left_out), id=hashed, session=session, date=date)


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


# By framework: the columns by which tables are recognised, since their names can be chosen; what is selected,
# with dates in UTC; and what parses a message.
_CHATS: Mapping[str, tuple[frozenset[str], str, Callable[[Mapping[str, Any]], _Parsed]]] = {
    "openai-agents": (
        frozenset({"id", "session_id", "message_data", "created_at"}),
        "id, session_id, message_data, created_at || 'Z'",
        _parse_responses_item,
    ),
    "langchain": (
        frozenset({"id", "session_id", "message"}),
        "id, session_id, message, NULL",
        lambda m: parse_langchain_message({**as_dict(m.get("data")), "type": m.get("type")}),
    ),
    "llama-index": (
        frozenset({"id", "key", "timestamp", "role", "status", "data"}),
        "id, key, data, timestamp / 1e9",
        parse_llama_index_message,
    ),
}

_PALACE_TABLES = {  # the columns that are read, by table
    "embedding_metadata": frozenset({"id", "key", "string_value", "int_value", "float_value"}),
    "triples": frozenset({"id", "subject", "predicate", "object", "valid_from", "valid_to", "confidence"}),
}

PALACE_FILES = ("chroma.sqlite3", "knowledge_graph.sqlite3")
"""The databases in the folder of a palace."""

_LABELS = ("wing", "room", "source_file", "chunk_index", "added_by")


def _read_mempalace(db: apsw.Connection, make: RecordMaker) -> Iterator[Entry]:
    """Read drawers as knowledge, and triples as facts with the time for which they held."""
    columns = _table_columns(db)
    if "embeddings" in columns and "embedding_metadata" in columns:
        for (id_, palace), pairs in groupby(db.execute(_SQL["drawers"]), lambda row: (row[0], row[3])):
            fields: dict[str, Any] = {key: value for _, key, value, _ in pairs}
            labels = {k: v for k, v in fields.items() if k in _LABELS}
            topic = "/".join(str(fields[k]) for k in ("wing", "room") if fields.get(k))
            text, date = fields.get("chroma:document"), fields.get("filed_at")
            yield make.knowledge(f"{palace} {id_}", topic, text, id=id_, origin=palace, date=date, **labels)
    if "triples" in columns and "entities" in columns:
        for id_, subject, predicate, value, begins, ends, share, date, file in db.execute(_SQL["triples"]):
            triple, origin = (subject, str(predicate).replace("_", " "), value), file or "knowledge graph"
            dates = {"date": date, "begins": begins, "ends": ends}
            more: Any = {"category": "relation", "confidence": share, **dates}
            yield make.fact(f"triples {id_}", triple, id=id_, origin=origin, **more)


_LANGGRAPH_TABLES = {  # the columns that are read, by table
    "checkpoints": frozenset({"thread_id", "checkpoint_ns", "type", "checkpoint", "metadata"}),
    "store": frozenset({"prefix", "key", "value", "created_at"}),
}

_OF_OTHERS = LeftOut("threads and items of other users")
_OBJECT_TYPES = range(6)  # extension types with a module, a name and arguments
_MAX_DEPTH = 100  # objects in objects
_MAX_KEY_CHARS = 1_000  # of a key that is no text


def _read_langgraph(db: apsw.Connection, make: RecordMaker) -> Iterator[Entry]:
    """Read a file: the messages of the newest checkpoint of each thread, and the items of the store."""
    columns, others = _table_columns(db), tuple[str, ...]()
    if _LANGGRAPH_TABLES["checkpoints"] <= columns.get("checkpoints", frozenset()):
        others = make.find_others(user for (user,) in db.execute(_SQL["file_users"]))
        for thread, kind, data, user in db.execute(_SQL["file_states"]):
            state = _OF_OTHERS if user in others else _decode_value(f"checkpoints {thread}", kind, data)
            fields, is_unread = as_dict(state), isinstance(state, Rejected | LeftOut)
            messages = state if is_unread else as_dict(fields.get("channel_values")).get("messages")
            yield from _messages(str(thread), messages, fields.get("ts"), make)
        if count := db.execute(_SQL["file_subgraphs"]).fetchall()[0][0]:
            yield LeftOut("states of subgraphs", int(count))
    if _LANGGRAPH_TABLES["store"] <= columns.get("store", frozenset()):
        yield from _items(db.execute(_SQL["file_items"]), make, others)


def read_langgraph_server(url: str, make: RecordMaker) -> Iterator[Entry]:
    """Read a database on a server in one snapshot, within a transaction that cannot write."""
    try:
        import psycopg
    except ImportError as error:
        raise MissingExtra('reading PostgreSQL needs a package: pip install "jiyi[postgres]"') from error
    try:
        with psycopg.connect(url, connect_timeout=10, options="-c default_transaction_read_only=on") as db:
            db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            statements = {name: text.encode() for name, text in _SQL.items()}
            threads, store = db.execute(statements["server_tables"]).fetchone() or (False, False)
            if not (threads or store):
                raise ImportFailed(f"{mask(url)} holds no checkpoints and no store of LangGraph")
            users = db.execute(statements["server_users"]) if threads else ()
            others = make.find_others(user for (user,) in users)
            with db.cursor("threads") as cursor:
                rows = cursor.execute(statements["server_states"]) if threads else ()
                for thread, kind, blob, date, inline, user in rows:
                    value = inline if kind is None else _decode_value(f"checkpoints {thread}", kind, blob)
                    yield from _messages(str(thread), _OF_OTHERS if user in others else value, date, make)
            if store:
                with db.cursor("items") as cursor:
                    yield from _items(cursor.execute(statements["server_items"]), make, others)
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
    """Decode MessagePack without constructing objects; ValueError: it is cut off or nested too deep."""
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

    try:
        hooks: dict[str, Any] = {"ext_hook": arguments}
        hooks["object_pairs_hook"] = lambda pairs: {key_name(key): value for key, value in pairs}
        options = {"strict_map_key": False, "unicode_errors": "replace", "timestamp": 1}  # as a number
        return msgpack.unpackb(data, **hooks, **options)
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
    if isinstance(messages, Rejected | LeftOut):
        yield messages
    elif not as_list(messages):
        yield LeftOut("threads without messages")
    for number, message in enumerate(as_list(messages)):
        where = f"thread {thread[:100]} messages[{number}]"
        fields = as_dict(message)
        if not fields.get("type"):
            yield Rejected(where=where, reason="no message of LangChain")
            continue
        body, left_out = parse_langchain_message(fields)
        id_ = make.hash_id(thread, fields.get("id"), body)
        yield from make.turn(where, ([body], left_out), id=id_, session=thread, date=date)


def _items(rows: Iterable[tuple[Any, ...]], make: RecordMaker, others: Sequence[str]) -> Iterator[Entry]:
    for prefix, key, value, date in rows:
        where, namespace = f"store {prefix}/{key}"[:200], str(prefix).split(".")
        try:
            item = json.loads(value) if isinstance(value, str | bytes) else value
        except NOT_JSON as error:
            yield Rejected.because(where, f"not JSON: {error}")
            continue
        is_own = {*namespace}.isdisjoint(others)
        yield make.item(where, namespace, str(key), item, date=date) if is_own else _OF_OTHERS


_PROGRAMS: Mapping[str, tuple[_Tables, Callable[[apsw.Connection, RecordMaker], Iterator[Entry]]]] = {
    "langgraph": (_LANGGRAPH_TABLES, _read_langgraph),
    "mempalace": (_PALACE_TABLES, _read_mempalace),
}


def read_database(path: Path, maker: Callable[[str], RecordMaker]) -> Iterator[Entry]:
    """Read a SQLite file of one or several programs; ImportFailed: of none that is known."""
    with _open_foreign_database(path) as db:
        tables = _table_columns(db)
        readers = {
            source: read
            for source, (known, read) in _PROGRAMS.items()
            if any(columns <= tables.get(table, frozenset()) for table, columns in known.items())
        }
        chats = (source for source, (known, *_) in _CHATS.items() if any(known <= t for t in tables.values()))
        readers |= dict.fromkeys(chats, _read_chats)
        if not readers:
            known = "LangGraph, OpenAI Agents, LangChain, LlamaIndex, MemPalace; or jiyi's: jiyi copy"
            raise ImportFailed(f"{path} is a database of no program that is known: {known}")
        for source, read in readers.items():
            yield from read(db, maker(source))
