"""The context message: which retrieved blocks go in, without what the window already says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from functools import lru_cache
from itertools import pairwise

from jiyi.context import render
from jiyi.context.pack import pack
from jiyi.context.prefix import taken_of
from jiyi.context.report import of_block
from jiyi.records import Block, Message, ReportItem, Section
from jiyi.text import TokenCounter, sentences

__all__ = ["NO_ROOM", "Retrieved", "Said"]

_LEAST = 24  # bytes of a line that is looked for: 8 Chinese characters; "ok" stands everywhere
_KEPT = 500  # characters up to which a line's sentences are kept: what is shown once is shown again
_GAP = "…"

_ALREADY = "already in the window as history"
_SAID = "its words stand in the window already"
_OUTDATED = "outdated; what took its place is in the window"
NO_ROOM = "no room in its share of the budget"
_EMPTY = Message(role="user", content="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The words of history and summary."""

    ids: frozenset[str]  # of messages in sight
    text: str  # all lines, white space evened out

    @classmethod
    def of(
        cls, history: Sequence[Message], summary: Block | None = None, run: Sequence[Message] = ()
    ) -> "Said":
        """Return what history and summary say, and that the question and what follows it are shown.

        The text of that ``run`` is not compared: the window must not change during it.
        """
        texts = [message.search_text for message in history] + ([summary.text] if summary else [])
        lines = (_even(line) for text in texts for line in text.splitlines())
        return cls(ids=frozenset(message.id for message in (*history, *run)), text="\n".join(lines))

    def holds(self, block: Block) -> bool:
        """Say whether it is one of the messages, or says what one of them says."""
        itself = block.kind == "message" and block.source_id in self.ids
        return itself or not self.ids.isdisjoint(block.sources)

    def rest(self, block: Block) -> Block | None:
        """Return the block without what is here word for word, None if little is left.

        It compares lines, and sentences in lines: a summary keeps sentences. A block without any is
        returned unchanged. Only facts and messages are compared: the lines of an episode or a
        knowledge belong together, and so do fenced code and data in braces.
        """
        if block.kind not in ("message", "fact") or not self.text:
            return block
        lines = block.text.splitlines()
        whole = "```" in block.text
        left = [self._left(line, whole=whole) for line in lines]
        if left == lines:
            return block
        pairs = zip(left, lines, strict=True)
        if all(rest == _GAP or (rest == line and _short(line)) for rest, line in pairs):
            return None
        kept = [line for before, line in pairwise(["", *left]) if (before, line) != (_GAP, _GAP)]
        return replace(block, text="\n".join(kept), whole=False)

    def _left(self, line: str, *, whole: bool) -> str:
        """Return a line with gaps for the sentences that stand here; ``whole`` looks for the line only."""
        parts = (_parts if len(line) <= _KEPT else _parts.__wrapped__)(line)
        here, *known = [bool(even) and even in self.text for _, even in parts]
        if here:
            return _GAP
        if whole or "{" in line or not any(known):
            return line
        kept: list[str] = []
        for said, (part, _) in zip(known, parts[1:], strict=True):
            if not said:
                kept.append(part)
            elif not kept or kept[-1] != _GAP:
                kept.append(_GAP)
        return " ".join(kept)


@lru_cache(maxsize=4096)
def _parts(line: str) -> tuple[tuple[str, str], ...]:
    """Return a line and its sentences, each with its words evened out, or "" where it is too short."""
    return tuple((part, "" if _short(part) else _even(part)) for part in (line, *sentences(line)))


def _even(line: str) -> str:
    return " ".join(line.split())


def _short(line: str) -> bool:
    return len(line.strip().encode("utf-8", "replace")) < _LEAST


@dataclass(slots=True, kw_only=True)
class Retrieved:
    """The context message under construction."""

    counter: TokenCounter
    language: str
    zone: tzinfo
    asked_at: datetime | None = None  # said in its opening lines
    doubtful: bool = False  # the memory likely holds no answer; said even where no block is shown
    opening: str = field(init=False)
    out: list[ReportItem] = field(default_factory=list)  # what stays out, and why
    never: list[Block] = field(default_factory=list)  # those of it that found no room
    pieces: list[render.Piece] = field(default_factory=list)  # what it is made of in the end
    message: Message = field(init=False)  # made of them
    _there: set[tuple[str, str]] = field(default_factory=set)  # records that history or summary show
    _chosen: dict[Section, list[Block]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.opening = render.render_opening(self.language, self.asked_at, self.zone, doubtful=self.doubtful)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks it shows, without successors of others, in its order."""
        keys = {block.key for some in self._chosen.values() for block in some}
        return tuple(block for _, block in self.pieces if block and block.key in keys)

    def priced(self, block: Block) -> Block:
        """Return a block with the tokens it takes alone."""
        text = render.render_block(block, self.language, self.zone)
        return replace(block, tokens=self.counter.count_text(text) + 1)

    def frame(self, blocks: Sequence[Block]) -> int:
        """Return the tokens of everything except the blocks."""
        if not blocks and not self.doubtful:
            return 0
        text = render.render_frame({block.section for block in blocks}, self.opening, self.language)
        return self.counter.count(self._as_message(text))

    def unsaid(self, blocks: Sequence[Block], said: Said) -> list[Block]:
        """Return the blocks without what history and summary already say."""
        self._there = {("message", id_) for id_ in said.ids}
        left = []
        for block in blocks:
            rest = None if said.holds(block) else said.rest(block)
            if rest is not None:
                left.append(block if rest is block else self.priced(rest))
                continue
            self.out.append(of_block(block, _ALREADY if block.key in self._there else _SAID))
            self._there.add(block.key)
        return left

    def choose(self, blocks: Sequence[Block], given: Mapping[Section, int], spare: int, free: int) -> None:
        """Pack priced blocks into the allotment of their section, then the rest into what is left over.

        ``spare`` are tokens that no section asks for, ``free`` is the limit of the whole message.
        """
        left: list[Block] = []
        for section in render.QUOTED:
            allowance = given[section] + spare
            taken, over = pack([b for b in blocks if b.section == section], allowance)
            self._chosen[section] = taken
            spare = allowance - sum(b.tokens for b in taken)
            left += over
        late, never = pack(left, spare)
        self._add(late)
        self.never = self._fit(never, free)
        self.out += [of_block(b, NO_ROOM) for b in self.never]
        told = {block.key for _, block in self.pieces if block}  # a successor may have had no room of its own
        self.out = [item for item in self.out if (item.kind, item.id) not in told]

    def shown(self) -> list[tuple[Block, int]]:
        """Return all blocks it shows, successors included, each with the tokens it takes."""
        return taken_of(self.pieces, self.message, _EMPTY, self.counter)

    def _fit(self, waiting: Sequence[Block], free: int) -> list[Block]:
        """Render the message, and look again at what it takes; return the blocks that find no room.

        Pieces may take a little more together than apart: then the least of them goes. Passages
        take less, and what is outdated leaves: what that saves is given to those that wait.
        """
        waiting, gone = self._priced_beside(waiting), list[Block]()
        while True:
            self._leave_told()
            left_over = free - self._render()
            if left_over >= 0:
                more, left = pack(waiting, left_over) if not gone else ([], waiting)
                if not more:
                    return [*waiting, *gone]
                waiting = left
                self._add(more)
                continue
            candidates = [block for some in self._chosen.values() for block in some]
            if not candidates:
                self._set([])
                return [*waiting, *gone]
            worst = min(candidates, key=lambda block: block.score)
            self._chosen[worst.section].remove(worst)
            gone.append(worst)

    def _render(self) -> int:
        """Write what is chosen, and return the tokens of the message."""
        given = self._chosen, self.opening, self.language, self.zone
        self._set(render.context_pieces(*given, there=self._there, always=self.doubtful))
        return self.counter.count(self.message) if self.pieces else 0

    def _set(self, pieces: list[render.Piece]) -> None:
        self.pieces = pieces
        self.message = self.counter.counted(self._as_message("".join([text for text, _ in pieces])))

    def _add(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            self._chosen[block.section].append(block)

    def _priced_beside(self, waiting: Sequence[Block]) -> list[Block]:
        """Return blocks with the tokens they take next to what is chosen: in a passage without a date."""
        chosen, count = self._chosen["recalled"], self.counter.count_text
        date = count("2026-03-01 20:00 · ") - count(render.GAP)
        return [
            replace(b, tokens=b.tokens - date) if any(render.together(b, other) for other in chosen) else b
            for b in waiting
        ]

    def _leave_told(self) -> None:
        """Let go of what the window tells already: facts of a message that it shows whole, and what is
        outdated for sure where what took its place is shown."""
        blocks = [block for some in self._chosen.values() for block in some]
        whole = self._there.union(block.key for block in blocks if block.whole)
        for block in blocks:
            if block.outdated == "surely" and block.successor and block.successor.key in whole:
                why = _OUTDATED
            elif block.kind == "fact" and any(("message", id_) in whole for id_ in block.sources):
                why = _SAID
            else:
                continue
            self.out.append(of_block(block, why))
            self._chosen[block.section].remove(block)

    @staticmethod
    def _as_message(text: str) -> Message:
        # A user message: what was retrieved must never speak with the system's authority.
        return Message(role="user", content=text)
