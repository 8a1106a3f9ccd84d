"""Renders blocks and messages as Markdown; retrieved text is always quoted as data.

Texts are made of pieces, so that the report can say how many tokens each block takes.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Literal

from jiyi.prompts import quote, wording
from jiyi.records import Block, Message, Section
from jiyi.text import TokenCounter
from jiyi.text import language as language_of

__all__ = [
    "CONTEXT_SECTIONS", "GAP", "Piece", "Prefix", "SummaryPlace", "context_pieces", "edges", "join_texts",
    "passages", "render_block", "render_frame", "render_opening", "render_window", "same_passage",
    "tokens_by_block",
]  # fmt: skip

_PASSAGE_BREAK = timedelta(hours=1)  # a message after such a pause begins a passage
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_EMPTY = Message(role="user", content="")

CONTEXT_SECTIONS: tuple[Section, ...] = ("task", "episodes", "knowledge", "recalled")
"""The sections that are shown inside the context message, in its order."""

Piece = tuple[str, Block | None]
"""A text and the block it shows; None for headings and separators."""

GAP = "> …\n"
"""The line that stands for messages of a passage that are not shown."""


def edges(blocks: Sequence[Block]) -> list[Block]:
    """Order blocks so that the best is first, the second best last, and the worst in the middle.

    Models use the middle of a long context least: Liu et al., "Lost in the Middle", TACL 2024.
    """
    ranked = sorted(blocks, key=lambda block: -block.score)
    return [*ranked[::2], *reversed(ranked[1::2])]


def passages(blocks: Sequence[Block]) -> list[list[Block]]:
    """Group blocks into passages, oldest first: parts of one session without a pause of an hour.

    Blocks in a passage are in the order of the session, with possible gaps. A block without a
    thread is a passage of its own.
    """
    found: list[list[Block]] = []
    for block in sorted(blocks, key=lambda block: (block.thread, block.place, _created_at(block))):
        before = found[-1][-1] if found else None
        if before and same_passage(before, block):
            found[-1].append(block)
        else:
            found.append([block])
    return sorted(found, key=lambda passage: _created_at(passage[0]))


def same_passage(first: Block, second: Block) -> bool:
    """Say whether two consecutive blocks belong to one passage."""
    same_thread = bool(first.thread) and first.thread == second.thread
    return same_thread and abs(_created_at(second) - _created_at(first)) < _PASSAGE_BREAK


def _created_at(block: Block) -> datetime:
    return block.created_at or _EARLIEST


def _render_skills(skills: Sequence[Block]) -> list[Piece]:
    """Return the skills, unquoted, under a heading; nothing when there are none.

    Required ones, the cards, come first, so that opening or closing a skill changes only what
    follows them. The heading is in the language of the first text, whatever is asked.
    """
    ordered = sorted(skills, key=lambda block: not block.required)
    if not ordered:
        return []
    first = ordered[0]
    heading = wording("window", language_of(first.text))["skills"]
    pieces: list[Piece] = [(f"## {heading}\n", None), (first.text, first)]
    for before, block in pairwise(ordered):
        lines = "\n" in before.text or "\n" in block.text
        pieces.append((("\n\n" if lines else "\n") + block.text, block))
    return pieces


def _render_profile(profile: Sequence[Block]) -> list[Piece]:
    """Return the profile, one quoted line each, under a heading in the language of the first."""
    if not profile:
        return []
    headings = wording("window", language_of(profile[0].text))
    pieces: list[Piece] = [(f"## {headings['profile']}\n{headings['told']}\n", None)]
    return [*pieces, *(("\n" + quote(block.text), block) for block in profile)]


def _render_summary(summary: Block | None) -> list[Piece]:
    """Return the summary, quoted, under a heading in its language; nothing without one."""
    if summary is None:
        return []
    headings = wording("window", language_of(summary.text))
    return [(f"## {headings['summary']}\n{headings['summarised']}\n\n", None), (quote(summary.text), summary)]


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

    def render(self, counter: TokenCounter) -> tuple[list[Message], list[tuple[Block, int]]]:
        """Return the messages to send, counted, and the blocks in them, each with the tokens it takes.

        The sections follow the last system message's own text.
        """
        appended, separate = self._split_pieces()
        messages, shown = [counter.counted(message) for message in self.system], list[tuple[Block, int]]()
        if appended:
            bare = messages.pop() if messages else Message(role="system", content="")
            messages.append(counter.counted(_append_text(bare, join_texts(appended))))
            shown += tokens_by_block([("\n\n", None), *appended], messages[-1], counter, bare)
        if separate:
            # A user message: quoted statements have no more authority now than when they were made.
            messages.append(counter.counted(Message(role="user", content=join_texts(separate))))
            shown += tokens_by_block(separate, messages[-1], counter)
        return messages, shown

    def _split_pieces(self) -> tuple[list[Piece], list[Piece]]:
        """Return the pieces appended to the last system message, and those of a separate message."""
        appended, separate = _render_skills(self.skills), _render_profile(self.profile)
        separate = _join_pieces(separate, _render_summary(self.summary))
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


def join_texts(pieces: Sequence[Piece]) -> str:
    """Return the text of the pieces together."""
    return "".join([text for text, _ in pieces])


def tokens_by_block(
    pieces: Sequence[Piece], message: Message, counter: TokenCounter, bare: Message = _EMPTY
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


def render_opening(
    language: str, asked_at: datetime | None = None, zone: tzinfo = UTC, *, doubtful: bool = False
) -> str:
    """Return the first lines of a context message: that it is data, the date, and any doubt."""
    headings = wording("window", language)
    lines = [headings["preface"]]
    if asked_at is not None:
        now = _to_zone(zone, asked_at)
        day = headings["days"].split()[now.weekday()]
        lines.append(headings["now"].format(moment=f"{now:%Y-%m-%d %H:%M}", day=day, zone=zone))
    if doubtful:
        lines.append(headings["doubtful"])
    return "\n".join(lines)


def render_frame(sections: Set[Section], opening: str, language: str) -> str:
    """Return the context message of these sections without their blocks, to count the framing."""
    return opening + "".join([_render_heading(s, language) for s in CONTEXT_SECTIONS if s in sections])


def render_block(block: Block, language: str, zone: tzinfo = UTC) -> str:
    """Return a block as it is shown alone in the context message."""
    return join_texts(_render_passage([block], set(), language, zone))


def context_pieces(
    blocks: Mapping[Section, Sequence[Block]],
    opening: str,
    language: str,
    zone: tzinfo = UTC,
    *,
    elsewhere: Set[tuple[str, str]] = frozenset(),
    always: bool = False,
) -> list[Piece]:
    """Return the pieces of the context message; without blocks none, or with ``always`` date and doubt.

    Task, episodes and knowledge have their best at the edges; messages are ordered by time, in
    passages with one date each. A block's successor directly follows it unless it is shown
    as a block, or is shown ``elsewhere`` in the window.
    """
    shown = {*elsewhere} | {block.key for chosen in blocks.values() for block in chosen}
    pieces: list[Piece] = []
    for section in CONTEXT_SECTIONS:
        chosen = blocks.get(section)
        if not chosen:
            continue
        pieces.append((_render_heading(section, language), None))
        groups = passages(chosen) if section == "recalled" else [[block] for block in edges(chosen)]
        for number, group in enumerate(groups):
            if number:
                pieces.append(("\n\n", None))
            pieces += _render_passage(group, shown, language, zone)
    nothing_follows = opening.partition("\n")[2]  # so no line says that the following is data
    return [(opening, None), *pieces] if pieces else [(nothing_follows, None)] * always


def render_window(
    *,
    system: Sequence[Message],
    history: Sequence[Message],
    context: str,
    current: Message | None,
    language: str,
) -> str:
    """Return the window as one Markdown text; ``system`` is everything before the history."""
    headings = wording("window", language)
    parts = [message.text for message in system]
    if history:
        lines = "\n".join(_render_message(message, language) for message in history)
        parts.append(f"## {headings['history']}\n{lines}")
    parts.append(context)
    if current is not None:
        parts.append(f"## {headings['input']}\n{current.text}")
    return "\n\n".join(filter(None, parts))


def _render_heading(section: Section, language: str) -> str:
    return f"\n\n## {wording('window', language)[section]}\n"


def _render_passage(
    group: Sequence[Block], shown: set[tuple[str, str]], language: str, zone: tzinfo
) -> list[Piece]:
    pieces: list[Piece] = []
    for number, block in enumerate(group):
        if number:
            adjacent = block.place == group[number - 1].place + 1
            pieces.append(("\n" if adjacent else f"\n{GAP}", None))
        pieces.append((quote(_add_header(block, language, zone if number == 0 else None)), block))
        successor = block.successor
        if successor is not None and successor.key not in shown:
            shown.add(successor.key)
            pieces.append(("\n" + quote(f"→ {_add_header(successor, language, zone)}"), successor))
    return pieces


def _add_header(block: Block, language: str, zone: tzinfo | None) -> str:
    """Return the block's text after its date (if a zone is given), speaker and outdated mark."""
    date = ""
    if zone and block.created_at:
        date = _to_zone(zone, block.created_at).isoformat(" ")[: 16 if block.section == "recalled" else 10]
    speaker = wording("role", language).get(block.speaker, block.speaker)
    mark = wording("window", language)[block.outdated] if block.outdated else ""
    head = " · ".join(filter(None, [date, speaker, mark]))
    return f"[{head}] {block.text}" if head else block.text


def _to_zone(zone: tzinfo, moment: datetime) -> datetime:
    try:
        return moment if moment.tzinfo is zone else moment.astimezone(zone)
    except OverflowError:  # at the edge of year 1 or 9999: not converted
        return moment


def _render_message(message: Message, language: str) -> str:
    role = wording("role", language).get(message.role, message.role)
    speaker = f"{role} {message.name}" if message.name else role
    return f"- **{speaker}**: " + "\n  ".join(message.search_text.splitlines())
