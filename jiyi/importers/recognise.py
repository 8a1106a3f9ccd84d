"""Recognise the program that wrote a file, folder or database by its content, not by its name."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import apsw

from jiyi.errors import ImportFailed
from jiyi.importers.chatgpt import read_chatgpt
from jiyi.importers.claude import read_claude
from jiyi.importers.claude_code import is_transcript, read_claude_code
from jiyi.importers.entries import Entry, RecordMaker, as_dict, as_list
from jiyi.importers.files import Files, iter_json_values, open_files
from jiyi.importers.langgraph import LANGGRAPH_TABLES, read_langgraph, read_langgraph_server
from jiyi.importers.letta import parse_agent_file, read_letta
from jiyi.importers.mem0_client import Mem0Client, is_mem0, read_mem0, read_mem0_client
from jiyi.importers.mempalace import PALACE_FILES, PALACE_TABLES, read_mempalace
from jiyi.importers.server_memory import read_server_memory
from jiyi.importers.sqlite import CHAT_TABLES, open_foreign_database, read_chats, table_columns
from jiyi.storage.transfer.files import refuse_device, unreadable

__all__ = ["is_remote_source", "is_server", "read_foreign"]

_SERVERS = ("postgresql://", "postgres://")
_SQLITE = b"SQLite format 3\0"
_MAX_SAMPLES = 50  # values and files to look at

_DATABASE_READERS: Mapping[str, Callable[[apsw.Connection, RecordMaker], Iterator[Entry]]] = {
    "langgraph": read_langgraph,
    "mempalace": read_mempalace,
    **{source: lambda db, make: read_chats(db, make.source, make) for source in CHAT_TABLES},
}


def is_server(place: object) -> bool:
    """Return whether a place is the URL of a PostgreSQL server."""
    return isinstance(place, str) and place.startswith(_SERVERS)


def is_remote_source(place: object) -> bool:
    """Return whether a place is no file or folder, but a server or a client of mem0."""
    return is_server(place) or is_mem0(place)


def read_foreign(
    place: Path | str | Mem0Client, maker: Callable[[str], RecordMaker]
) -> Iterator[Entry] | None:
    """Return the entries of another program's data, None if it may be a file of jiyi.

    Args:
        place: a file, a folder, the URL of a PostgreSQL database, or see `read_mem0_client`.
        maker: returns the record maker for the name of a program.

    Raises:
        ImportFailed: it cannot be read, or is a folder, zip or database of an unknown program.
        JiyiError: see `read_mem0_client`.
    """
    if isinstance(place, str) and is_server(place):
        return read_langgraph_server(place, maker("langgraph"))
    if not isinstance(place, Path):
        return read_mem0_client(place, maker("mem0"))
    refuse_device(place)
    if _starts_with(place, _SQLITE):
        return _read_database(place, maker)
    with open_files(place) as files:
        databases = [file for name in PALACE_FILES for file in files.matching(name) if place.is_dir()]
        source = None if databases else _detect_source(files)
        single_file = not (place.is_dir() or len(files.names) != 1 or files.names[0] != place.name)
    if databases:
        return (entry for name in databases for entry in _read_database(place / name, maker))
    if source is not None:
        return _read_files(place, source, maker(source))
    if single_file:
        return None
    raise ImportFailed(
        f"{place} is no folder or zip of a program that is known; they hold conversations.json "
        "(ChatGPT, Claude), *.jsonl (Claude Code) or chroma.sqlite3 (MemPalace)"
    )


def _read_files(path: Path, source: str, make: RecordMaker) -> Iterator[Entry]:
    with open_files(path) as files:
        yield from files.rejected
        yield from _FILES[source][1](files, make)


def _read_database(path: Path, maker: Callable[[str], RecordMaker]) -> Iterator[Entry]:
    with open_foreign_database(path) as db:
        sources = list(_detect_database_sources(table_columns(db)))
        if not sources:
            raise ImportFailed(
                f"{path} is a database of no program that is known: LangGraph, OpenAI Agents, LangChain, "
                "LlamaIndex, MemPalace; for one of jiyi's own use: jiyi copy"
            )
        for source in sources:
            yield from _DATABASE_READERS[source](db, maker(source))


def _detect_database_sources(tables: Mapping[str, frozenset[str]]) -> Iterator[str]:
    for source, known_tables in (("langgraph", LANGGRAPH_TABLES), ("mempalace", PALACE_TABLES)):
        if any(columns <= tables.get(table, frozenset()) for table, columns in known_tables.items()):
            yield source
    for source, columns in CHAT_TABLES.items():
        if any(columns <= found for found in tables.values()):
            yield source


def _detect_source(files: Files) -> str | None:
    """Return the program that wrote these files, recognised by their first values."""
    names = files.matching("conversations*.json") or files.matching("*.json") or files.matching("*.jsonl")
    for name in names[:_MAX_SAMPLES] or (files.names[:1] if len(files.names) == 1 else ()):
        for _, value in islice(iter_json_values(files, name), _MAX_SAMPLES):
            for source, (detects, _) in _FILES.items():
                if detects(value):
                    return source
    return None


def _has(value: object, *names: str) -> bool:
    return all(name in as_dict(value) for name in names)


def _is_mem0(value: object) -> bool:
    first = as_list(as_dict(value).get("results") or as_dict(value).get("memories")) or [value]
    return _has(first[0], "id", "memory") or _has(first[0], "id", "data", "hash")


def _is_graph(value: object) -> bool:
    kind = as_dict(value).get("type")
    return (kind == "entity" and _has(value, "name")) or (kind == "relation" and _has(value, "from", "to"))


def _is_claude(value: object) -> bool:
    names = ("chat_messages", "conversations_memory", "prompt_template")
    return any(_has(value, name) for name in names)


_FILES: Mapping[str, tuple[Callable[[Any], bool], Callable[[Files, RecordMaker], Iterator[Entry]]]] = {
    "chatgpt": (lambda value: _has(value, "mapping"), read_chatgpt),
    "claude": (_is_claude, read_claude),
    "letta": (lambda value: bool(parse_agent_file(value)), read_letta),
    "server-memory": (_is_graph, read_server_memory),
    "mem0": (_is_mem0, read_mem0),
    "claude-code": (is_transcript, read_claude_code),
}
"""By program: what recognises a value of its files, and what reads them."""


def _starts_with(path: Path, mark: bytes) -> bool:
    try:
        if path.is_dir():
            return False
        with path.open("rb") as file:
            return file.read(len(mark)) == mark
    except OSError as error:
        raise unreadable(path, error) from error
