"""Which program a file, folder or database is from: told by what it holds, not by its name."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import apsw

from jiyi.errors import ImportFailed
from jiyi.importers.chatgpt import read_chatgpt
from jiyi.importers.claude import read_claude
from jiyi.importers.claude_code import is_transcript, read_claude_code
from jiyi.importers.entries import Entry, Maker, items, mapping
from jiyi.importers.files import Files, opened_files, values
from jiyi.importers.langgraph import LANGGRAPH_TABLES, read_langgraph, read_langgraph_server
from jiyi.importers.letta import agent_file, read_letta
from jiyi.importers.mem0_client import Mem0Client, is_mem0, read_mem0, read_mem0_client
from jiyi.importers.mempalace import PALACE_FILES, PALACE_TABLES, read_mempalace
from jiyi.importers.server_memory import read_server_memory
from jiyi.importers.sqlite import CHAT_TABLES, foreign_database, read_chats, tables
from jiyi.storage.transfer.files import refuse_device, unreadable

__all__ = ["is_no_file", "is_server", "read_foreign"]

_SERVERS = ("postgresql://", "postgres://")
_SQLITE = b"SQLite format 3\0"
_LOOKED_AT = 50  # values by which a file is known

_FROM_FILES: Mapping[str, Callable[[Files, Maker], Iterator[Entry]]] = {
    "chatgpt": read_chatgpt,
    "claude": read_claude,
    "claude-code": read_claude_code,
    "mem0": read_mem0,
    "server-memory": read_server_memory,
    "letta": read_letta,
}
_FROM_TABLES: Mapping[str, Callable[[apsw.Connection, Maker], Iterator[Entry]]] = {
    "langgraph": read_langgraph,
    "mempalace": read_mempalace,
    **{source: lambda db, make: read_chats(db, make.source, make) for source in CHAT_TABLES},
}


def is_server(place: object) -> bool:
    """Say whether a place is the URL of a PostgreSQL server."""
    return isinstance(place, str) and place.startswith(_SERVERS)


def is_no_file(place: object) -> bool:
    """Say whether a place is read as something else than a file or folder: a server, a client of mem0."""
    return is_server(place) or is_mem0(place)


def read_foreign(place: Path | str | Mem0Client, maker: Callable[[str], Maker]) -> Iterator[Entry] | None:
    """Return the entries of what another program wrote; None for what looks like no other program's.

    Args:
        place: a file, a folder, the URL of a PostgreSQL database, or see `read_mem0_client`.
        maker: gives the maker of records for the name of a program.

    Raises:
        ImportFailed: it cannot be read, or is a folder, zip or database of no program that is known.
        JiyiError: see `read_mem0_client`.
    """
    if isinstance(place, str) and is_server(place):
        return read_langgraph_server(place, maker("langgraph"))
    if not isinstance(place, Path):
        return read_mem0_client(place, maker("mem0"))
    refuse_device(place)
    if _begins_with(place, _SQLITE):
        return _from_database(place, maker)
    with opened_files(place) as files:
        databases = [file for name in PALACE_FILES for file in files.named(name) if place.is_dir()]
        source = None if databases else _source_of(files)
        alone = not (place.is_dir() or len(files.names) != 1 or files.names[0] != place.name)
    if databases:
        return (entry for name in databases for entry in _from_database(place / name, maker))
    if source is not None:
        return _from_files(place, source, maker(source))
    if alone:
        return None
    raise ImportFailed(
        f"{place} is no folder or zip of a program that is known; they hold conversations.json "
        "(ChatGPT, Claude), *.jsonl (Claude Code) or chroma.sqlite3 (MemPalace)"
    )


def _from_files(path: Path, source: str, make: Maker) -> Iterator[Entry]:
    with opened_files(path) as files:
        yield from files.rejected
        yield from _FROM_FILES[source](files, make)


def _from_database(path: Path, maker: Callable[[str], Maker]) -> Iterator[Entry]:
    with foreign_database(path) as db:
        sources = list(_sources_in(tables(db)))
        if not sources:
            raise ImportFailed(
                f"{path} is a database of no program that is known: LangGraph, OpenAI Agents, LangChain, "
                "LlamaIndex, MemPalace; for one of jiyi's own use: jiyi copy"
            )
        for source in sources:
            yield from _FROM_TABLES[source](db, maker(source))


def _sources_in(there: Mapping[str, frozenset[str]]) -> Iterator[str]:
    for source, wanted in (("langgraph", LANGGRAPH_TABLES), ("mempalace", PALACE_TABLES)):
        if any(columns <= there.get(table, frozenset()) for table, columns in wanted.items()):
            yield source
    for source, columns in CHAT_TABLES.items():
        if any(columns <= held for held in there.values()):
            yield source


def _source_of(files: Files) -> str | None:
    """Return the program that wrote these files, by the first values in them."""
    shown = files.named("conversations*.json") or files.named("*.json") or files.named("*.jsonl")
    for name in shown[:_LOOKED_AT] or (files.names[:1] if len(files.names) == 1 else ()):
        for _, value in islice(values(files, name), _LOOKED_AT):
            for source, fits in _FITS.items():
                if fits(value):
                    return source
    return None


def _has(value: object, *names: str) -> bool:
    return all(name in mapping(value) for name in names)


def _is_mem0(value: object) -> bool:
    first = items(mapping(value).get("results") or mapping(value).get("memories")) or [value]
    return _has(first[0], "id", "memory") or _has(first[0], "id", "data", "hash")


def _is_graph(value: object) -> bool:
    kind = mapping(value).get("type")
    return (kind == "entity" and _has(value, "name")) or (kind == "relation" and _has(value, "from", "to"))


_FITS: Mapping[str, Callable[[Any], bool]] = {
    "chatgpt": lambda value: _has(value, "mapping"),
    "claude": lambda value: any(
        _has(value, name) for name in ("chat_messages", "conversations_memory", "prompt_template")
    ),
    "letta": lambda value: bool(agent_file(value)),
    "server-memory": _is_graph,
    "mem0": _is_mem0,
    "claude-code": is_transcript,
}


def _begins_with(path: Path, mark: bytes) -> bool:
    try:
        if path.is_dir():
            return False
        with path.open("rb") as file:
            return file.read(len(mark)) == mark
    except OSError as error:
        raise unreadable(path, error) from error
