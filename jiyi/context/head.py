"""The head of a window: system messages, skills and the summary, which change least."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jiyi.context.render import quote, render_skills, render_summary
from jiyi.records import Block, Message
from jiyi.text import TokenCounter

__all__ = ["Head", "SummaryPlace"]

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

    @classmethod
    def of(
        cls,
        system: Sequence[Message],
        skills: Sequence[Block],
        summary: Block | None,
        *,
        place: SummaryPlace,
        counter: TokenCounter,
    ) -> "Head":
        """Take everything in, each block with the tokens of its text as it will be shown."""
        return cls(
            system=tuple(system),
            skills=tuple(replace(b, tokens=counter.count_text(b.text) + 1) for b in skills),
            summary=replace(summary, tokens=counter.count_text(quote(summary.text)) + 1) if summary else None,
            place=place,
        )

    def messages(self) -> tuple[Message, ...]:
        """Return the messages to send: the sections stand behind the last system message's own words."""
        inside = [render_skills(self.skills)]
        own = render_summary(self.summary)
        if self.place == "system":
            inside.append(own)
        text = "\n\n".join(filter(None, inside))
        out = list(self.system)
        if text and out:
            out[-1] = _behind(out[-1], text)
        elif text:
            out.append(Message(role="system", content=text))
        if own and self.place == "message":
            # A user message: a summary of what was said has no more authority than that had.
            out.append(Message(role="user", content=own))
        return tuple(out)

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


def _behind(message: Message, text: str) -> Message:
    """Return the message with ``text`` behind its own words; a count it carried is no longer true."""
    content = message.content
    if isinstance(content, tuple):
        return replace(message, content=(*content, {"type": "text", "text": text}), tokens=None)
    return replace(message, content=f"{content}\n\n{text}" if content else text, tokens=None)
