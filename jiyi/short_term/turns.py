"""Turns: a conversation in rounds, each with the atoms that lie in it.

A turn is a user message with everything up to the next one. It is found in one pass over the
messages, without a look at what they say; see `jiyi.records.atoms` for what cannot be parted.
"""

from collections.abc import Sequence

from jiyi.records import Message
from jiyi.records.atoms import Atom, atoms

__all__ = ["Atom", "atoms", "turns"]


def turns(messages: Sequence[Message]) -> list[tuple[int, ...]]:
    """Return the turns of a conversation, oldest first, each as ascending places of its messages.

    A turn is a user message and everything up to the next user message; what stands
    before the first user message is a turn of its own. Turns across which a tool call and
    its results reach are joined, with those between them: no atom lies in two turns.
    System messages belong to no turn.
    """
    rounds: list[list[int]] = []
    round_of: list[int] = []
    for place, message in enumerate(messages):
        if message.role != "system":
            if message.role == "user" or not rounds:
                rounds.append([])
            rounds[-1].append(place)
        round_of.append(len(rounds) - 1)
    reach = list(range(len(rounds)))  # the last round that an atom starting in this one touches
    for atom in atoms(messages):
        if messages[atom.first].role != "system":
            start = round_of[atom.first]
            reach[start] = max(reach[start], round_of[atom.indices[-1]])
    joined: list[list[int]] = []
    end = -1
    for number, places in enumerate(rounds):
        if number > end:
            joined.append([])
        joined[-1].extend(places)
        end = max(end, reach[number])
    return [tuple(places) for places in joined]
