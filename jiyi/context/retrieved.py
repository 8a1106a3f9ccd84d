"""The context message: retrieved blocks, without text that the rest of the window shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import Self

from jiyi.context import render
from jiyi.context.pack import pack
from jiyi.records import Block, Message, Section
from jiyi.text import TokenCounter, sentences

_MIN_COMPARED_BYTES = 24  # of a line that is compared: 8 Chinese characters; "ok" occurs everywhere
_CACHED_LENGTH = 500  # characters up to which the sentences of a line are cached
_GAP = "…"
_MARKS = " .!。！"  # at the ends of a text that may be a line of the profile

_IN_HISTORY = "already in the window as history"
_TEXT_SHOWN = "its words stand in the window already"
_SUCCESSOR_SHOWN = "outdated; what took its place is in the window"
NO_ROOM = "no room in its share of the budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowText:
    """The text of history, summary and profile."""

    ids: frozenset[str]  # of the messages shown
    text: str  # all lines of history and summary, each with single spaces
    profile: frozenset[str]  # its lines

    @classmethod
    def of(cls, history: Sequence[Message], run: Sequence[Message], prefix: render.Prefix) -> Self:
        """Collect what a window shows, and the ids of the messages of history and current ``run``.

        The text of the run is left out: what the window shows must not change during a run.
        """
        texts = [m.search_text for m in history] + ([prefix.summary.text] if prefix.summary else [])
        lines = (" ".join(line.split()) for text in texts for line in text.splitlines())
        profile = frozenset(block.text.strip(_MARKS) for block in prefix.profile)
        return cls(ids=frozenset(m.id for m in (*history, *run)), text="\n".join(lines), profile=profile)

    def contains_message(self, block: Block) -> bool:
        """Say whether the block is one of the messages shown, or has one as its source."""
        is_shown = block.kind == "message" and block.source_id in self.ids
        return is_shown or not self.ids.isdisjoint(block.sources)

    def without_repeats(self, block: Block) -> Block | None:
        """Return the block without lines and sentences already shown; None if little is left.

        Only facts and messages are compared: the lines of an episode or of knowledge belong
        together, and so do fenced code and data in braces.
        """
        if block.kind not in ("message", "fact"):
            return block
        if block.text.strip(_MARKS) in self.profile:
            return None
        lines = block.text.splitlines() if self.text else []
        lines_only = "```" in block.text
        remaining = [self._line_without_repeats(line, lines_only=lines_only) for line in lines]
        if remaining == lines:
            return block
        pairs = zip(remaining, lines, strict=True)
        if all(part == _GAP or (part == line and _is_too_short(line)) for part, line in pairs):
            return None
        kept = [line for before, line in pairwise(["", *remaining]) if (before, line) != (_GAP, _GAP)]
        return replace(block, text="\n".join(kept), whole=False)

    def _line_without_repeats(self, line: str, *, lines_only: bool) -> str:
        """Return a line with gaps for sentences already shown; with ``lines_only`` only whole lines."""
        parts = (_split_line if len(line) <= _CACHED_LENGTH else _split_line.__wrapped__)(line)
        is_line_shown, *shown = [bool(comparable) and comparable in self.text for _, comparable in parts]
        if is_line_shown:
            return _GAP
        if lines_only or "{" in line or not any(shown):
            return line
        kept: list[str] = []
        for is_shown, (part, _) in zip(shown, parts[1:], strict=True):
            if not is_shown:
                kept.append(part)
            elif not kept or kept[-1] != _GAP:
                kept.append(_GAP)
        return " ".join(kept)


@lru_cache(maxsize=4096)
def _split_line(line: str) -> tuple[tuple[str, str], ...]:
    """Return the line and its sentences, each with its text to compare, or "" if it is too short."""
    return tuple((s, "" if _is_too_short(s) else " ".join(s.split())) for s in (line, *sentences(line)))


def _is_too_short(line: str) -> bool:
    return len(line.strip().encode("utf-8", "replace")) < _MIN_COMPARED_BYTES


@dataclass(slots=True, kw_only=True)
class ContextMessage:
    """Builds the context message."""

    counter: TokenCounter
    language: str
    zone: tzinfo
    asked_at: datetime | None = None  # shown in the opening lines
    doubtful: bool = False  # the memory likely holds no answer; shown even without any block
    opening: str = field(init=False)
    left_out: list[tuple[Block, str]] = field(default_factory=list)  # with the reasons
    without_room: list[Block] = field(default_factory=list)  # blocks left out for lack of tokens
    pieces: list[render.Piece] = field(default_factory=list)
    message: Message = field(init=False)  # the pieces as a message
    _already_shown: set[tuple[str, str]] = field(default_factory=set)  # records whose words the window shows
    _chosen: dict[Section, list[Block]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.opening = render.render_opening(self.language, self.asked_at, self.zone, doubtful=self.doubtful)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The chosen blocks in the order shown, without their successors."""
        keys = {block.key for blocks in self._chosen.values() for block in blocks}
        return tuple(block for _, block in self.pieces if block and block.key in keys)

    def with_tokens(self, block: Block) -> Block:
        """Return the block with the tokens it takes when shown alone."""
        text = render.render_block(block, self.language, self.zone)
        return replace(block, tokens=self.counter.count_text(text) + 1)

    def frame_tokens(self, blocks: Sequence[Block]) -> int:
        """Return the tokens of everything except the blocks."""
        if not blocks and not self.doubtful:
            return 0
        text = render.render_frame({block.section for block in blocks}, self.opening, self.language)
        return self.counter.count(Message(role="user", content=text))

    def drop_repeated(self, blocks: Sequence[Block], window_text: WindowText) -> list[Block]:
        """Return the blocks that the window does not show elsewhere, without the text they repeat."""
        self._already_shown = {("message", id_) for id_ in window_text.ids}
        remaining = []
        for block in blocks:
            rest = None if window_text.contains_message(block) else window_text.without_repeats(block)
            if rest is not None:
                remaining.append(block if rest is block else self.with_tokens(rest))
                continue
            reason = _IN_HISTORY if block.key in self._already_shown else _TEXT_SHOWN
            self.left_out.append((block, reason))
            self._already_shown.add(block.key)
        return remaining

    def choose(self, blocks: Sequence[Block], allotted: Mapping[Section, int], spare: int, free: int) -> None:
        """Fill each section's allotment with blocks, then use the remaining tokens for others.

        ``allotted`` are tokens by section, ``spare`` those no section needs; ``free`` limits the message.
        """
        left: list[Block] = []
        for section in render.CONTEXT_SECTIONS:
            allowance = allotted[section] + spare
            taken, skipped = pack([b for b in blocks if b.section == section], allowance)
            self._chosen[section] = taken
            spare = allowance - sum(b.tokens for b in taken)
            left += skipped
        fitting, unfitting = pack(left, spare)
        self._add(fitting)
        self.without_room = self._fit_into(unfitting, free)
        self.left_out += [(block, NO_ROOM) for block in self.without_room]
        shown = {block.key for _, block in self.pieces if block}  # as successors without room of their own
        self.left_out = [(block, reason) for block, reason in self.left_out if block.key not in shown]

    def tokens_by_block(self) -> list[tuple[Block, int]]:
        """Return all blocks shown, successors included, each with the tokens it takes."""
        return render.tokens_by_block(self.pieces, self.message, self.counter)

    def _fit_into(self, waiting: Sequence[Block], free: int) -> list[Block]:
        """Render the message within ``free`` tokens; return the blocks left without room.

        If it is too long, the block of lowest score goes. Tokens that passages and redundant blocks
        save go to the waiting ones.
        """
        waiting, removed = self._price_with_neighbours(waiting), list[Block]()
        while True:
            self._drop_redundant()
            left_over = free - self._render()
            if left_over >= 0:
                more, left = pack(waiting, left_over) if not removed else ([], waiting)
                if not more:
                    return [*waiting, *removed]
                waiting = left
                self._add(more)
                continue
            candidates = [block for blocks in self._chosen.values() for block in blocks]
            if not candidates:
                self._set_pieces([])
                return [*waiting, *removed]
            worst = min(candidates, key=lambda block: block.score)
            self._chosen[worst.section].remove(worst)
            removed.append(worst)

    def _render(self) -> int:
        """Render the chosen blocks and return the tokens of the message."""
        given = self._chosen, self.opening, self.language, self.zone
        self._set_pieces(render.context_pieces(*given, elsewhere=self._already_shown, always=self.doubtful))
        return self.counter.count(self.message) if self.pieces else 0

    def _set_pieces(self, pieces: list[render.Piece]) -> None:
        self.pieces = pieces
        # A user message: retrieved text must not have the authority of the system prompt.
        self.message = self.counter.counted(Message(role="user", content=render.join_texts(pieces)))

    def _add(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            self._chosen[block.section].append(block)

    def _price_with_neighbours(self, waiting: Sequence[Block]) -> list[Block]:
        """Return the blocks with the tokens they take next to the chosen ones: no date within a passage."""
        chosen, count = self._chosen["recalled"], self.counter.count_text
        date = count("2026-03-01 20:00 · ") - count(render.GAP)
        return [
            replace(b, tokens=b.tokens - date) if any(render.same_passage(b, o) for o in chosen) else b
            for b in waiting
        ]

    def _drop_redundant(self) -> None:
        """Drop facts whose source message is shown, and outdated blocks whose successor is shown."""
        blocks = [block for chosen in self._chosen.values() for block in chosen]
        shown_whole = self._already_shown.union(block.key for block in blocks if block.whole)
        for block in blocks:
            if block.outdated == "surely" and block.successor and block.successor.key in shown_whole:
                reason = _SUCCESSOR_SHOWN
            elif block.kind == "fact" and any(("message", id_) in shown_whole for id_ in block.sources):
                reason = _TEXT_SHOWN
            else:
                continue
            self.left_out.append((block, reason))
            self._chosen[block.section].remove(block)
