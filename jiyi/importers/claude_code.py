"""Transcripts of Claude Code: a file of JSON lines a session, in folders by project."""

from collections.abc import Iterator, Mapping
from typing import Any

from jiyi.importers.blocks import messages_of
from jiyi.importers.entries import Entry, LeftOut, Maker, mapping
from jiyi.importers.files import Files, values
from jiyi.storage.transfer.lines import Rejected

__all__ = ["is_transcript", "read_claude_code"]

_ASIDE = {
    "isSidechain": "messages of subagents",
    "isMeta": "messages of the program",
    "isCompactSummary": "summaries of what stands in full",
    "isApiErrorMessage": "messages of the program",
}
_COMMANDS = ("<command-", "<local-command-", "<bash-")  # what the user did at the prompt, not said


def is_transcript(line: object) -> bool:
    """Say whether a line is one of a transcript."""
    entry = mapping(line)
    return "leafUuid" in entry or "sessionId" in entry or entry.get("type") == "file-history-snapshot"


def read_claude_code(files: Files, make: Maker) -> Iterator[Entry]:
    """Read the sessions of a folder such as ``~/.claude/projects``, or one."""
    for name in files.named("*.jsonl"):
        title = None
        for where, line in values(files, name):
            entry = mapping(line)
            if isinstance(line, Rejected):
                yield line
            elif entry.get("type") in ("summary", "ai-title", "custom-title"):
                title = entry.get("summary") or entry.get("aiTitle") or entry.get("customTitle")
            elif entry.get("type") in ("user", "assistant"):
                yield from _turn(where, entry, make, title)
            elif is_transcript(entry) or "type" in entry:
                yield LeftOut(f"lines of type {str(entry.get('type'))[:40]}")
            else:
                yield Rejected(where=where, reason="no line of a transcript")


def _turn(where: str, entry: Mapping[str, Any], make: Maker, title: object) -> Iterator[Entry]:
    aside = next((what for key, what in _ASIDE.items() if entry.get(key)), None)
    content = mapping(entry.get("message")).get("content")
    if not isinstance(content, str | list):
        yield Rejected(where=where, reason="a line of a user or assistant has a message with content")
        return
    if isinstance(content, str) and content.lstrip().startswith(_COMMANDS):
        aside = "commands of the prompt"
    if aside:
        yield LeftOut(aside)
        return
    session, model = entry.get("sessionId"), mapping(entry.get("message")).get("model")
    id_ = entry.get("uuid") or make.hashed(session, entry.get("timestamp"), content)
    bodies, left = messages_of(str(entry["type"]), content)
    yield from map(LeftOut, left)
    for part, body in enumerate(bodies):
        yield make.message(
            where,
            body,
            id=f"{id_}/{part}" if part else id_,
            talk=session,
            date=entry.get("timestamp"),
            title=title,
            model=model if isinstance(model, str) else None,
            folder=entry.get("cwd") if isinstance(entry.get("cwd"), str) else None,
        )
