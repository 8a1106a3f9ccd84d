"""Models that read: a local server that quotes who is to be asked about what, and one without a server."""

import json
import re
from typing import Any

from scripted_chat import ScriptedChat, answer
from scripted_endpoint import Reply

import jiyi.llm

__all__ = ["EMPTY", "FixedModel", "ReadingModel", "line", "read_fact", "says_facts"]

EMPTY: dict[str, Any] = {"facts": [], "entities": [], "topics": [], "conclusions": []}

_LINE = re.compile(r"\[(\d+)\] [^\n]*\n> [^:\n]+: [^\n]*?(if (\S+) breaks, ask (\w+))")
_CONVERSATION = re.compile(r"\n(?:Conversation:|对话：)\n(.*)", re.DOTALL)


def line(number: int, who: str = "Mei") -> str:
    """What somebody says that no pattern reads and the model does."""
    return f"well, if pump-{number} breaks, ask {who} of course"


def read_fact(message: int, subject: str, value: str, quote: str, **fields: Any) -> dict[str, Any]:
    """One statement as the model writes it."""
    made = {"message": message, "quote": quote, "subject": subject, "predicate": "keeper", "object": value}
    return made | {"category": "relation", "action": "state", "replaces": 0, "from": "", "until": ""} | fields


def says_facts(*facts: dict[str, Any]) -> Reply:
    """A reply with these statements."""
    return Reply(body=answer(json.dumps(EMPTY | {"facts": list(facts)})))


def _honest(asked: dict[str, Any]) -> dict[str, Any]:
    said = _CONVERSATION.search(asked["messages"][0]["content"])
    found = _LINE.findall(said[1]) if said else []
    facts = [read_fact(int(place), thing, who, words) for place, words, thing, who in found]
    return answer(json.dumps(EMPTY | {"facts": facts}))


class FixedModel:
    """Answers with what it is given, or raises it; remembers what it was asked."""

    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def complete(self, messages: Any, **_: Any) -> jiyi.llm.Reply:
        self.asked.append(messages[0]["content"])
        if isinstance(self.answer, Exception):
            raise self.answer
        return jiyi.llm.Reply(text=self.answer)


class ReadingModel(ScriptedChat):
    """Answers what it is told to, and reads afterwards."""

    honest = staticmethod(_honest)
