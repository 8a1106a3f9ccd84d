"""Files in which things change, read for measuring and for learning: the neutral format, or talks.

python bench/change.py TALKS OUT    write talks as a file of the neutral format, for jiyi evaluate
"""

import json
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from talks import Chain, Talk, read_talks

from jiyi.evaluate import Dataset, load_dataset
from jiyi.evaluate.dataset import read_dataset
from jiyi.records import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One value of a point, and whether it holds when the conversation ends."""

    message: str  # id of the message that says it
    wordings: tuple[str, ...]
    holds: bool


@dataclass(slots=True)
class Change:
    """What changes in one conversation."""

    points: list[list[Held]] = field(default_factory=list)  # of each point its values, in the order of time
    replaced: set[tuple[str, str]] = field(default_factory=set)  # ids: a message, and one that took its place

    @property
    def values(self) -> list[Held]:
        """All values of all points."""
        return [value for point in self.points for value in point]


def load(path: str) -> tuple[Dataset, Mapping[str, Change]]:
    """Return a file's conversations, and what changes in each, by its id."""
    file = Path(path)
    if file.suffix == ".txt":
        talks = read_talks(file)
        return read_dataset(_neutral(talks), file=file.name), {talk.name: _of_talk(talk) for talk in talks}
    data = json.loads(file.read_text(encoding="utf-8"))
    changes = {one["conversation_id"]: _of_neutral(one) for one in data["conversations"] if "facts" in one}
    return load_dataset(path), changes


def is_held(value: Held, facts: Sequence[Fact]) -> bool:
    """Say whether one of the facts was read from the value's message and has its words, or is that value."""
    wanted = [plain(word) for word in value.wordings]
    for fact in facts:
        there, text = plain(fact.object), plain(fact.text)
        if value.message in fact.sources and any(word in there or word in text for word in wanted):
            return True
        if value.holds and any(word in there and 2 * len(word) >= len(there) for word in wanted):
            return True
    return False


def plain(text: str) -> str:
    """Return a text without spaces and case, full-width letters as half-width ones."""
    return re.sub(r"\s+", "", unicodedata.normalize("NFKC", text)).lower()


def _of_talk(talk: Talk) -> Change:
    change = Change()
    end = talk.said[-1].at.date().isoformat()
    for chain in talk.chains:
        ids = [f"{talk.name}:{value.number}" for value in chain.values]
        change.points.append(list(_held(chain, ids, end)))
        if chain.until is None:
            change.replaced |= _pairs(ids)
    return change


def _held(chain: Chain, ids: Sequence[str], end: str) -> Iterator[Held]:
    over = chain.until is not None and chain.until[1] <= end
    for place, (value, id_) in enumerate(zip(chain.values, ids, strict=True)):
        if value.text:
            holds = place == len(ids) - 1 and not over
            yield Held(message=id_, wordings=value.text, holds=holds)


def _of_neutral(conversation: Mapping[str, Any]) -> Change:
    change = Change()
    end = max(said["created_at"] for session in conversation["sessions"] for said in session["messages"])
    for point in conversation["facts"]:
        held = []
        for value in point["values"]:
            holds = value["to"] is None or value["to"][:10] > end[:10]
            held.append(Held(message=value["message"], wordings=tuple(value["value"]), holds=holds))
        change.points.append(held)
        change.replaced |= _pairs([value["message"] for value in point["values"]])
    return change


def _pairs(ids: Sequence[str]) -> set[tuple[str, str]]:
    return {(earlier, later) for earlier, later in combinations(ids, 2) if earlier != later}


def _neutral(talks: Sequence[Talk]) -> dict[str, Any]:
    return {
        "name": talks[0].hand,
        "language": talks[0].hand[:2],
        "conversations": [
            {"conversation_id": talk.name, "sessions": _sessions(talk), "questions": list(_questions(talk))}
            for talk in talks
        ],
    }


def _sessions(talk: Talk) -> list[dict[str, Any]]:
    sessions: dict[int, list[dict[str, Any]]] = {}
    called = ""  # id of the latest call
    for said in talk.said:
        message: dict[str, Any] = {"id": f"{talk.name}:{said.number}", "created_at": said.at.isoformat()}
        if said.role == "call":
            called = message["id"]
            call = {"id": called, "function": {"name": said.name, "arguments": said.text}}
            message |= {"role": "assistant", "tool_calls": [{"type": "function", **call}]}
        else:
            message |= {"role": said.role, "name": said.name, "content": said.text}
            if said.role == "tool" and called:
                message["tool_call_id"] = called
        sessions.setdefault(said.session, []).append(message)
    return [{"session_id": f"s{number}", "messages": some} for number, some in sessions.items()]


def _questions(talk: Talk) -> Iterator[dict[str, Any]]:
    for place, asked in enumerate(talk.questions):
        yield {
            "id": f"{talk.name}:q{place}",
            "question": asked.text,
            "asked_at": asked.at.isoformat(),
            "kind": "abstain" if asked.kind == "none" else asked.kind,
            "answer": asked.answer,
            "evidence": [f"{talk.name}:{number}" for number in asked.evidence],
            "stale": [f"{talk.name}:{number}" for number in asked.stale],
            "evidence_mode": "all" if asked.all_needed else "any",
            "abstain": asked.kind == "none",
        }


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python bench/change.py TALKS OUT")
    written = json.dumps(_neutral(read_talks(Path(sys.argv[1]))), ensure_ascii=False, indent=1)
    Path(sys.argv[2]).write_text(written + "\n", encoding="utf-8")
