"""Atoms and turns: which messages of a conversation belong together."""

from collections.abc import Sequence
from typing import NamedTuple

from jiyi.records.message import Message

__all__ = ["Atom", "atoms", "turns"]

_ORPHAN = -1  # instead of the number of missing results


class Atom(NamedTuple):
    """Messages that are kept together or dropped together."""

    indices: tuple[int, ...]  # places in the sequence, ascending; never empty
    broken: str | None = None  # why no model would accept it; None if it is sound

    @property
    def first(self) -> int:
        """The place of its first message; of a tool call that is the call."""
        return self.indices[0]


def atoms(messages: Sequence[Message]) -> list[Atom]:
    """Return the atoms of a conversation, ordered by their first message.

    An assistant message with tool calls forms one atom with all its later results, in any order; every other
    message is an atom of its own. Call ids may be reused: a result belongs to the most recent unanswered call
    with its id. Broken atoms are a result without a call, and a call that lacks a result, together with the
    results it has. Removing whole atoms from a sequence never changes the other atoms.
    """
    groups: list[list[int]] = []
    missing: list[int] = []  # by group: how many results it waits for
    waiting: dict[str | None, list[int]] = {}  # call id -> groups with such a call open, newest last
    for place, message in enumerate(messages):
        if message.role == "tool":
            if open_calls := waiting.get(message.tool_call_id):
                group = open_calls.pop()
                groups[group].append(place)
                missing[group] -= 1
                continue
            missing.append(_ORPHAN)
        else:
            for call in message.tool_calls:
                waiting.setdefault(call.id, []).append(len(groups))
            missing.append(len(message.tool_calls))
        groups.append([place])
    return [
        Atom(tuple(group), _broken_reason(lacks, len(messages[group[0]].tool_calls)) if lacks else None)
        for group, lacks in zip(groups, missing, strict=True)
    ]


def turns(messages: Sequence[Message]) -> list[tuple[int, ...]]:
    """Return the turns of a conversation, oldest first, each as ascending places of its messages.

    A turn is a user message and everything up to the next user message; what comes before the
    first user message is a turn of its own. Turns that share a tool call and its results are
    joined with those between them, so that no atom is in two turns. System messages are in none.
    """
    rounds: list[list[int]] = []
    round_of: list[int] = []
    for place, message in enumerate(messages):
        if message.role != "system":
            if message.role == "user" or not rounds:
                rounds.append([])
            rounds[-1].append(place)
        round_of.append(len(rounds) - 1)
    last_round = list(range(len(rounds)))  # the last round that an atom starting in this one touches
    for atom in atoms(messages):
        if messages[atom.first].role != "system":
            start = round_of[atom.first]
            last_round[start] = max(last_round[start], round_of[atom.indices[-1]])
    joined: list[list[int]] = []
    end = -1
    for number, places in enumerate(rounds):
        if number > end:
            joined.append([])
        joined[-1].extend(places)
        end = max(end, last_round[number])
    return [tuple(places) for places in joined]


def _broken_reason(missing: int, calls: int) -> str:
    if missing == _ORPHAN:
        return "tool result without its call"
    if missing == calls:
        return "tool call without its result"
    return f"tool call with {calls - missing} of {calls} results"
