"""The head of a window: system messages, skills and the summary, which change least."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jiyi.context.render import Piece, render_skills, render_summary
from jiyi.records import Block, Message
from jiyi.text import TokenCounter

__all__ = ["Head", "SummaryPlace", "taken_of"]

SummaryPlace = Literal["system", "message"]
"""Where the summary stands: inside the system section, or as a user message of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What stands before the history, and what of it may leave."""

    system: tuple[Message, ...]  # as they came
    skills: tuple[Block, ...]  # cards and opened bodies
    summary: Block | None
    place: SummaryPlace
    gone: tuple[Block, ...] = ()  # what had to leave, first come first

    def messages(self) -> tuple[Message, ...]:
        """Return the messages to send: the sections stand after the last system message's own words."""
        inside, own = ("".join(text for text, _ in some) for some in self._pieces())
        out = list(self.system)
        if inside and out:
            out[-1] = _longer(out[-1], inside)
        elif inside:
            out.append(Message(role="system", content=inside))
        if own:
            # A user message: a summary of what was said has no more authority than that had.
            out.append(Message(role="user", content=own))
        return tuple(out)

    def counted(self, counter: TokenCounter) -> list[tuple[Block, int]]:
        """Return the blocks it shows, each with the tokens it takes there."""
        inside, own = self._pieces()
        messages = [*self.messages()]
        out: list[tuple[Block, int]] = []
        if own:
            out += taken_of(own, messages.pop(), Message(role="user", content=""), counter)
        if inside:
            bare = self.system[-1] if self.system else Message(role="system", content="")
            out[:0] = taken_of([("\n\n", None), *inside], messages[-1], bare, counter)
        return out

    def _pieces(self) -> tuple[list[Piece], list[Piece]]:
        """Return what stands after the last system message's words, and in a message of its own."""
        inside, own = render_skills(self.skills), render_summary(self.summary)
        if self.place == "message":
            return inside, own
        return [*inside, *([("\n\n", None)] if inside and own else []), *own], []

    def smaller(self) -> "Head | None":
        """Return the head without what may leave first, or None where nothing may.

        The summary goes first, then opened skills, lowest score first, of equals the last.
        Whatever is required stays.
        """
        if self.summary is not None and not self.summary.required:
            return replace(self, summary=None, gone=(*self.gone, self.summary))
        closable = [i for i, block in enumerate(self.skills) if not block.required]
        if not closable:
            return None
        worst = min(reversed(closable), key=lambda i: self.skills[i].score)
        kept = self.skills[:worst] + self.skills[worst + 1 :]
        return replace(self, skills=kept, gone=(*self.gone, self.skills[worst]))


def taken_of(
    pieces: Sequence[Piece], message: Message, bare: Message, counter: TokenCounter
) -> list[tuple[Block, int]]:
    """Return the blocks of pieces by which a message is longer than ``bare``, each with what it takes."""
    total = counter.count(message) - counter.count(bare)
    tokens = counter.spread([text for text, _ in pieces], total)
    return [(block, share) for (_, block), share in zip(pieces, tokens, strict=True) if block]


def _longer(message: Message, text: str) -> Message:
    """Return the message with ``text`` after its own words; a count it carried is no longer true."""
    content = message.content
    if isinstance(content, tuple):
        return replace(message, content=(*content, {"type": "text", "text": text}), tokens=None)
    return replace(message, content=f"{content}\n\n{text}" if content else text, tokens=None)
