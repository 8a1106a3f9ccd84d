"""A summary in a model's words: the conversation folded in piece by piece, nothing of it cut."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import Template

from jiyi.compression.summarize_extractive import choose, write
from jiyi.compression.summarize_points import bullets, labelled, points_before
from jiyi.errors import BadReply, LLMError
from jiyi.llm import LLM, Reply
from jiyi.prompts import Language, load_prompt, quote
from jiyi.records import Message
from jiyi.text import TokenCounter

__all__ = ["Writer"]

_LEAST_PIECE = 200  # tokens of the conversation that go with each call, however long the rest is


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Writes summaries with a model.

    The conversation is quoted as data. Where it takes more than one call may, it is folded
    in pieces, each call with the summary so far; a message that is too long alone is parted.
    """

    llm: LLM
    language: Language  # of the prompts and the summary
    limit: int  # most tokens of the summary
    input_tokens: int  # most tokens of a prompt, as long as what stands around it allows
    thinking_tokens: int  # a reply may take these beside twice its limit
    counter: TokenCounter
    prompt: str = ""  # in place of jiyi's own, for the first summary and the later ones

    def write(self, messages: Sequence[Message], previous: str) -> tuple[str, tuple[str, ...]]:
        """Return the new summary as bullet points, and notes.

        Raises:
            LLMError: the model could not be asked or said nothing; any error of a model is one.
        """
        notes: list[str] = []
        said = labelled(messages, self.language)
        summary = previous
        if self.counter.count_text(previous) > 2 * self.limit:  # folded in as well, rather than cut
            said, summary = [previous, *said], ""
        for piece in self._pieces(said, summary):
            summary = self._fold(summary, piece, notes)
        return summary, tuple(dict.fromkeys(notes))

    def _fold(self, summary: str, piece: str, notes: list[str]) -> str:
        made = self._ask(self._filled(summary, quote(piece)), notes)
        if self.counter.count_text(made) > self.limit:
            made = self._shorter(made, notes)
        return made

    def _filled(self, summary: str, dialogue: str) -> str:
        """Return the prompt that asks for a summary of what was said before and now."""
        if self.prompt:
            template = Template(self.prompt.strip())
            if summary.strip() and "summary" not in template.get_identifiers():
                dialogue = f"{quote(summary)}\n{dialogue}"
            return template.substitute(limit=self.limit, summary=quote(summary), dialogue=dialogue)
        if not summary.strip():
            first = load_prompt("summarize", self.language)
            return first.substitute(limit=self.limit, dialogue=dialogue)
        more = load_prompt("summarize_more", self.language)
        return more.substitute(limit=self.limit, summary=quote(summary), dialogue=dialogue)

    def _shorter(self, made: str, notes: list[str]) -> str:
        try:
            prompt = load_prompt("summarize_shorter", self.language)
            shorter = self._ask(prompt.substitute(limit=self.limit, summary=quote(made)), notes)
        except LLMError as error:
            notes.append(f"the summary could not be shortened by the language model: {error}")
            shorter = made
        tokens = self.counter.count_text(shorter)
        if tokens <= self.limit:
            return shorter
        notes.append(
            f"the language model's summary had {tokens} tokens; of its points those worth most "
            f"were kept, {self.limit} tokens at most"
        )
        return write(choose(points_before(shorter), self.limit, self.counter), self.limit, self.counter)

    def _ask(self, prompt: str, notes: list[str]) -> str:
        try:
            reply = self.llm.complete(
                [{"role": "user", "content": prompt}], max_tokens=2 * self.limit + self.thinking_tokens
            )
        except LLMError:
            raise
        except Exception as error:  # a model from outside may raise anything
            raise LLMError(f"the language model failed: {error!r}; look at its adapter") from error
        return self._bulleted(reply, notes)

    def _bulleted(self, reply: Reply, notes: list[str]) -> str:
        lines = [line for line in bullets(reply.text) if not _is_heading(line)]
        if reply.finish == "length" and len(lines) > 1:
            lines = lines[:-1]
            notes.append("the language model's answer was cut off; its last, unfinished point is left out")
        if not lines:
            raise BadReply("the language model wrote no summary; use a larger model")
        return "\n".join(f"- {line}" for line in dict.fromkeys(lines))

    def _pieces(self, said: Sequence[str], summary: str) -> Iterator[str]:
        # The prompt of later summaries is the longest.
        around = self._filled(summary or " -", "")
        later = max(0, self.limit - self.counter.count_text(summary))  # the summary may grow
        room = self.input_tokens - self.counter.count_text(around) - later
        room = max(_LEAST_PIECE, room)
        piece: list[str] = []
        used = 0
        for part in self._parts(said, room):
            tokens = self.counter.count_text(quote(part)) + 1
            if piece and used + tokens > room:
                yield "\n".join(piece)
                piece, used = [], 0
            piece.append(part)
            used += tokens
        if piece:
            yield "\n".join(piece)

    def _parts(self, said: Sequence[str], room: int) -> Iterator[str]:
        """Give each message, those larger than a piece in parts, after a line or a word if there is one."""
        for text in said:
            left = text
            while left and self.counter.count_text(quote(left)) + 1 > room:
                part = self._beginning(left, room)
                yield part
                left = left[len(part) :]
            if left.strip():
                yield left

    def _beginning(self, text: str, room: int) -> str:
        take = room - 1
        part = self.counter.truncate(text, take)
        while len(part) > 1 and self.counter.count_text(quote(part)) + 1 > room:  # "> " before each line
            take = take * 3 // 4
            part = self.counter.truncate(text, take)
        part = part or text[:1]
        for mark in ("\n", " ", "。"):
            end = part.rfind(mark, len(part) // 2) + 1
            if end:
                return part[:end]
        return part


_HEADINGS = frozenset(
    ("summary", "new summary", "here is the summary", "here is the new summary", "摘要", "新摘要", "总结")
)


def _is_heading(line: str) -> bool:
    """Say whether a line only announces the summary."""
    plain = line.strip("*#`: ：").casefold()
    return line.startswith("```") or plain in _HEADINGS
