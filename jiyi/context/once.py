"""What stands in the window already is not shown a second time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jiyi.records import Block, Message
from jiyi.text import sentences

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
        """Return the block without what stands here word for word, None where little is left.

        That are lines, and sentences in lines: a summary keeps sentences. A block without any comes
        back as it is. Only facts and messages are looked at: the lines of an experience or a
        lesson belong together, and so do code between fences and data in braces.
        """
        if block.kind not in ("message", "fact") or not self.text:
            return block
        lines = block.text.splitlines()
        whole = "```" in block.text
        left = [self._left(line, whole=whole) for line in lines]
        if left == lines:
            return block
        if all(
            rest == _GAP or (rest == line and _short(line)) for rest, line in zip(left, lines, strict=True)
        ):
            return None
        kept: list[str] = []
        for line in left:
            if line != _GAP or not kept or kept[-1] != _GAP:
                kept.append(line)
        return replace(block, text="\n".join(kept), whole=False)

    def _left(self, line: str, *, whole: bool) -> str:
        """Return a line with gaps for the sentences that stand here; ``whole`` looks for the line only."""
        if self._has(line):
            return _GAP
        parts = [] if whole or "{" in line else sentences(line)
        known = [self._has(part) for part in parts]
        if not any(known):
            return line
        kept: list[str] = []
        for here, part in zip(known, parts, strict=True):
            if not here:
                kept.append(part)
            elif not kept or kept[-1] != _GAP:
                kept.append(_GAP)
        return " ".join(kept)

    def _has(self, line: str) -> bool:
        return not _short(line) and _even(line) in self.text


def _even(line: str) -> str:
    return " ".join(line.split())


def _short(line: str) -> bool:
    return len(line.strip().encode("utf-8", "replace")) < _LEAST
