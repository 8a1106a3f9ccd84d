"""What stands in the window already is not shown a second time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jiyi.records import Block, Message

__all__ = ["Said"]

_LEAST = 24  # bytes of a line that is looked for: 8 Chinese characters; "ok" stands everywhere
_GAP = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The words of history and summary."""

    ids: frozenset[str]  # of messages in sight
    text: str  # all lines, white space evened out

    @classmethod
    def of(
        cls, history: Sequence[Message], summary: Block | None = None, run: Sequence[Message] = ()
    ) -> "Said":
        """Return what history and summary say.

        The question and what follows it, ``run``, are in sight, too, but their words are not
        looked for: the window must stay the same while a run goes on.
        """
        texts = [message.search_text for message in history] + ([summary.text] if summary else [])
        lines = (_even(line) for text in texts for line in text.splitlines())
        return cls(ids=frozenset(message.id for message in (*history, *run)), text="\n".join(lines))

    def holds(self, block: Block) -> bool:
        """Say whether it is one of the messages, or says what one of them says."""
        itself = block.kind == "message" and block.source_id in self.ids
        return itself or not self.ids.isdisjoint(block.sources)

    def rest(self, block: Block) -> Block | None:
        """Return the block without the lines that stand here word for word, None where little is left.

        A block without such a line comes back as it is. Only facts and messages are looked at: the
        lines of an experience or a lesson belong together.
        """
        if block.kind not in ("message", "fact") or not self.text:
            return block
        lines = block.text.splitlines()
        known = [self._has(line) for line in lines]
        if not any(known):
            return block
        if all(here or _short(line) for here, line in zip(known, lines, strict=True)):
            return None
        kept: list[str] = []
        for here, line in zip(known, lines, strict=True):
            if not here:
                kept.append(line)
            elif not kept or kept[-1] != _GAP:
                kept.append(_GAP)
        return replace(block, text="\n".join(kept), whole=False)

    def _has(self, line: str) -> bool:
        return not _short(line) and _even(line) in self.text


def _even(line: str) -> str:
    return " ".join(line.split())


def _short(line: str) -> bool:
    return len(line.strip().encode("utf-8", "replace")) < _LEAST
