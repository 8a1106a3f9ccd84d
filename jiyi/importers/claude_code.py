"""Transcripts of Claude Code: a file of JSON lines per session, in folders by project."""

from collections.abc import Iterator, Mapping
from typing import Any

from jiyi.errors import InputError
from jiyi.importers.blocks import split_turn
from jiyi.importers.entries import Entry, LeftOut, RecordMaker, as_dict
from jiyi.importers.files import Files, iter_json_values
from jiyi.storage.transfer.lines import Rejected

__all__ = ["is_transcript", "parse_turn", "read_claude_code"]

_SKIPPED_FLAGS = {
    "isSidechain": "messages of subagents",
    "isMeta": "messages of the program",
    "isCompactSummary": "summaries of what stands in full",
    "isApiErrorMessage": "messages of the program",
}
_COMMAND_PREFIXES = ("<command-", "<local-command-", "<bash-")  # commands at the prompt are no messages


def is_transcript(line: object) -> bool:
    """Return whether a line belongs to a transcript."""
    entry = as_dict(line)
    return "leafUuid" in entry or "sessionId" in entry or entry.get("type") == "file-history-snapshot"


def read_claude_code(files: Files, make: RecordMaker) -> Iterator[Entry]:
    """Read the sessions of a folder such as ``~/.claude/projects``, or one transcript."""
    for name in files.matching("*.jsonl"):
        title = None
        for where, line in iter_json_values(files, name):
            entry = as_dict(line)
            if isinstance(line, Rejected):
                yield line
            elif entry.get("type") in ("summary", "ai-title", "custom-title"):
                title = entry.get("summary") or entry.get("aiTitle") or entry.get("customTitle")
            elif entry.get("type") in ("user", "assistant"):
                yield from _messages(where, entry, make, title)
            elif is_transcript(entry) or "type" in entry:
                yield LeftOut(f"lines of type {str(entry.get('type'))[:40]}")
            else:
                yield Rejected(where=where, reason="no line of a transcript")


def parse_turn(line: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the messages of a line of the user or assistant, and what was left out of it.

    Raises:
        InputError: the line has no message with content.
    """
    content = as_dict(line.get("message")).get("content")
    if not isinstance(content, str | list):
        raise InputError("a line of a user or assistant has a message with content")
    if isinstance(content, str) and content.lstrip().startswith(_COMMAND_PREFIXES):
        return [], ["commands of the prompt"]
    reason = next((reason for key, reason in _SKIPPED_FLAGS.items() if line.get(key)), None)
    return ([], [reason]) if reason else split_turn(str(line["type"]), content)


def _messages(where: str, entry: Mapping[str, Any], make: RecordMaker, title: object) -> Iterator[Entry]:
    try:
        bodies, left_out = parse_turn(entry)
    except InputError as error:
        yield Rejected.because(where, error)
        return
    yield from map(LeftOut, left_out)
    session, message = entry.get("sessionId"), as_dict(entry.get("message"))
    id_ = entry.get("uuid") or make.hash_id(session, entry.get("timestamp"), message.get("content"))
    model = message.get("model")
    for part, body in enumerate(bodies):
        yield make.message(
            where,
            body,
            id=f"{id_}/{part}" if part else id_,
            session=session,
            date=entry.get("timestamp"),
            title=title,
            model=model if isinstance(model, str) else None,
            folder=entry.get("cwd") if isinstance(entry.get("cwd"), str) else None,
        )
