"""Transcripts of Claude Code: a file of JSON lines a session, in folders by project."""

from collections.abc import Iterator, Mapping
from typing import Any

from jiyi.errors import InputError
from jiyi.importers.blocks import messages_of
from jiyi.importers.entries import Entry, LeftOut, Maker, mapping
from jiyi.importers.files import Files, values
from jiyi.storage.transfer.lines import Rejected

__all__ = ["is_transcript", "read_claude_code", "said"]

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


def said(line: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the messages that a line of a user or the assistant becomes, and what was left out of it.

    Raises:
        InputError: it has no message with content.
    """
    content = mapping(line.get("message")).get("content")
    if not isinstance(content, str | list):
        raise InputError("a line of a user or assistant has a message with content")
    if isinstance(content, str) and content.lstrip().startswith(_COMMANDS):
        return [], ["commands of the prompt"]
    aside = next((what for key, what in _ASIDE.items() if line.get(key)), None)
    return ([], [aside]) if aside else messages_of(str(line["type"]), content)


def _turn(where: str, entry: Mapping[str, Any], make: Maker, title: object) -> Iterator[Entry]:
    try:
        bodies, left = said(entry)
    except InputError as error:
        yield Rejected.because(where, error)
        return
    yield from map(LeftOut, left)
    session, message = entry.get("sessionId"), mapping(entry.get("message"))
    id_ = entry.get("uuid") or make.hashed(session, entry.get("timestamp"), message.get("content"))
    model = message.get("model")
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
