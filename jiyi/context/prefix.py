"""The beginning of a window: system messages, skills, profile and summary, which change least."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jiyi.context.render import Piece, render_profile, render_skills, render_summary
from jiyi.records import Block, Message
from jiyi.text import TokenCounter

__all__ = ["Prefix", "SummaryPlace", "tokens_by_block"]

SummaryPlace = Literal["system", "message"]
"""Where profile and summary stand: inside the system section, or as a user message of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """What comes before the history, and which parts may be dropped."""

    system: tuple[Message, ...]  # as they came
    skills: tuple[Block, ...]  # cards and opened bodies
    profile: tuple[Block, ...]  # facts about the user, in every window, oldest first
    summary: Block | None
    place: SummaryPlace
    dropped: tuple[Block, ...] = ()  # dropped blocks, in the order of dropping

    def messages(self) -> tuple[Message, ...]:
        """Return the messages to send: the sections follow the last system message's own text."""
        appended, separate = ("".join(text for text, _ in pieces) for pieces in self._split_pieces())
        messages = list(self.system)
        if appended and messages:
            messages[-1] = _append_text(messages[-1], appended)
        elif appended:
            messages.append(Message(role="system", content=appended))
        if separate:
            # A user message: quoted statements have no more authority now than when they were made.
            messages.append(Message(role="user", content=separate))
        return tuple(messages)

    def count_blocks(self, messages: Sequence[Message], counter: TokenCounter) -> list[tuple[Block, int]]:
        """Return the blocks shown in ``messages()``, each with the tokens it takes there."""
        appended, separate = self._split_pieces()
        counted: list[tuple[Block, int]] = []
        if appended:
            place = -2 if separate else -1
            bare = self.system[-1] if self.system else Message(role="system", content="")
            counted += tokens_by_block([("\n\n", None), *appended], messages[place], bare, counter)
        if separate:
            counted += tokens_by_block(separate, messages[-1], Message(role="user", content=""), counter)
        return counted

    def _split_pieces(self) -> tuple[list[Piece], list[Piece]]:
        """Return the pieces appended to the last system message, and those of a separate message."""
        appended, separate = render_skills(self.skills), render_profile(self.profile)
        separate = _join_pieces(separate, render_summary(self.summary))
        return (appended, separate) if self.place == "message" else (_join_pieces(appended, separate), [])

    def smaller(self) -> "Prefix | None":
        """Return the prefix without the next part that may be dropped, or None if there is none.

        The summary goes first, then opened skills by ascending score (the last of equals first),
        then the profile. Required blocks stay.
        """
        if self.summary is not None and not self.summary.required:
            return replace(self, summary=None, dropped=(*self.dropped, self.summary))
        closable = [i for i, block in enumerate(self.skills) if not block.required]
        if not closable and self.profile:
            return replace(self, profile=(), dropped=(*self.dropped, *self.profile))
        if not closable:
            return None
        worst = min(reversed(closable), key=lambda i: self.skills[i].score)
        kept = self.skills[:worst] + self.skills[worst + 1 :]
        return replace(self, skills=kept, dropped=(*self.dropped, self.skills[worst]))


def tokens_by_block(
    pieces: Sequence[Piece], message: Message, bare: Message, counter: TokenCounter
) -> list[tuple[Block, int]]:
    """Return the blocks of the pieces that ``message`` has in addition to ``bare``, with their tokens."""
    total = counter.count(message) - counter.count(bare)
    tokens = counter.spread([text for text, _ in pieces], total)
    return [(block, share) for (_, block), share in zip(pieces, tokens, strict=True) if block]


def _join_pieces(first: list[Piece], second: list[Piece]) -> list[Piece]:
    return [*first, *([("\n\n", None)] if first and second else []), *second]


def _append_text(message: Message, text: str) -> Message:
    """Return the message with ``text`` appended and its token count removed."""
    content = message.content
    if isinstance(content, tuple):
        return replace(message, content=(*content, {"type": "text", "text": text}), tokens=None)
    return replace(message, content=f"{content}\n\n{text}" if content else text, tokens=None)
