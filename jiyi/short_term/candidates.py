"""Candidates: a conversation sorted into what must stay, what must go, and what may be chosen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jiyi.records import Message
from jiyi.short_term.policy import Dropped, Kept
from jiyi.short_term.turns import Atom, atoms

__all__ = ["Candidates"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What a policy decides about; the part it has no say in is decided already.

    Broken atoms go even where a message in them is pinned: a window that no model accepts
    helps nobody. A pin holds its whole atom.
    """

    messages: Sequence[Message]  # the conversation, in its order
    required: tuple[Atom, ...]  # system and pinned: stay in any case
    optional: tuple[Atom, ...]  # sound, and the policy's to choose
    broken: tuple[Atom, ...]  # go in any case

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "Candidates":
        """Sort a conversation; linear in its length."""
        required, optional, broken = [], [], []
        for atom in atoms(messages):
            if atom.broken is not None:
                broken.append(atom)
            elif any(messages[i].pinned or messages[i].role == "system" for i in atom.indices):
                required.append(atom)
            else:
                optional.append(atom)
        return cls(
            messages=messages, required=tuple(required), optional=tuple(optional), broken=tuple(broken)
        )

    def without(self, leaving: Mapping[int, str]) -> Kept:
        """Return the decision that these messages leave, each for its reason, and the broken ones too.

        ``leaving`` maps places in the conversation to reasons and names whole optional atoms.
        """
        reasons = {i: atom.broken for atom in self.broken for i in atom.indices} | dict(leaving)
        kept, dropped = [], []
        for place, message in enumerate(self.messages):
            reason = reasons.get(place)
            if reason is None:
                kept.append(message)
            else:
                dropped.append(Dropped(message=message, reason=reason))
        return Kept(kept=tuple(kept), dropped=tuple(dropped))
