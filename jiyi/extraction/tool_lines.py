"""Reads what a tool printed: only lines that are plainly name and value."""

import re
from datetime import datetime

from jiyi.extraction.statement import Statement

__all__ = ["read_tool_lines"]

_ABOUT = re.compile(
    r"^\s*(?:[●$>]\s*)?(?:(?:inspect|show|describe|status|get|last run"
    r"|\\d)\s+)?(?P<s>[A-Za-z][\w.-]{1,60})(?:\s+[a-z]+)?\s*(?:→|->|=>|:)\s*"
)
_PAIR = re.compile(r"(?<![\w.])(?P<p>[A-Za-z][\w.-]{0,40})=(?P<o>[^\s=,;]{1,80})(?=[\s,;]|$)")
_PASSING = re.compile(
    r"(?:rc|took|elapsed|duration|time|at|ts|timestamp|pid|count|failed|ok|changed|skipped|uptime"
    r"|restartcount|startedat|created|ago|ack|exit|code|id|uid|gid"
    r"|last_seen|date|size|progress|health|load|cpu|mem|used|free|latency|level|msg|error|trace|span"
    r"|request|host|assignee)\w*\Z",
    re.I,
)
_MOST_LINES = 50


def read_tool_lines(text: str, *, speaker: str, said_at: datetime) -> list[Statement]:
    """Return the settings in a tool's output: ``pay-gw: Image=registry/pay-gw:2.9.0 ...``.

    A pair counts only where the line begins with the name of what it belongs to; counters,
    times and other figures that pass are left out.
    """
    found: list[Statement] = []
    for line in text.splitlines()[:_MOST_LINES]:
        about = _ABOUT.match(line)
        if about is None:
            continue
        for match in _PAIR.finditer(line, about.end()):
            if _PASSING.match(match["p"]):
                continue
            found.append(
                Statement(
                    subject=about["s"],
                    predicate=match["p"],
                    object=match["o"],
                    quote=line.strip()[:400],
                    speaker=speaker,
                    said_at=said_at,
                    confidence=0.5,
                )
            )
    return found
