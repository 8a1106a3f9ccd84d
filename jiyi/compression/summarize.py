"""Summaries of conversations, one-shot or growing: by a model, or extractive."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from string import Template
from typing import Literal

from jiyi.compression.compressor import Compressed, Compressible, Given, Limit
from jiyi.compression.summarize_extractive import choose, summarise, write
from jiyi.compression.summarize_points import bullets, labelled, previous_points
from jiyi.errors import BadReply, InputError, LLMError
from jiyi.llm import LLM
from jiyi.prompts import Language, check_prompt, load_prompt, quote
from jiyi.records import Message, check_tokens
from jiyi.text import TokenCounter, counter_for
from jiyi.text import language as language_of

__all__ = ["Summarize"]

_MIN_PIECE_TOKENS = 200  # tokens of the conversation that go with each call, however long the rest is
_HEADINGS = frozenset(  # lines that only introduce the summary
    ("summary", "new summary", "here is the summary", "here is the new summary", "摘要", "新摘要", "总结")
)
_MIN_INPUT_TOKENS = 1_000  # tokens; a prompt with its example and a little of a conversation


@dataclass(frozen=True, slots=True)
class Summarize:
    """A `Compressor` that writes what was said as bullet points.

    - With ``previous`` the summary grows: the new one holds what matters of the one before and of the
      messages, and the input counts as bullet points with their speakers.
    - With ``llm``, a model writes; the conversation is quoted to it as data and never cut, but folded in
      pieces. A summary that is too long is sent back once, then reduced to the bullet points worth most;
      ``notes`` say so. Where the model fails, the extractive way is taken from the beginning, and a note says
      why; with ``fallback=False`` it is an `LLMError`.
    - Without, it is extractive and deterministic: see `summarize_extractive`. A to-do that a later sentence
      calls done goes. Points of the summary before fade slowly; decisions hardly do. The first point of a day
      has its date, where messages have one. A thousand messages take less than a second.
    - An own ``prompt`` has a place ``$dialogue``, and where it likes ``$limit`` (tokens) and ``$summary``
      (what came before; without that place it stands in front of the dialogue).
    - Points stand in the language they were said in; speakers are named in ``language``.

    InputError: ``max_tokens`` is below 1, ``input_tokens`` below 1,000, ``thinking_tokens`` below 0,
    ``language`` is not "auto", "zh" or "en", or ``prompt`` cannot be filled.
    """

    llm: LLM | None = None  # None: extractive
    max_tokens: int = field(default=500, kw_only=True)  # of the summary
    language: Language | Literal["auto"] = field(default="auto", kw_only=True)  # auto: of the conversation
    counter: TokenCounter = field(default_factory=counter_for, kw_only=True)
    fallback: bool = field(default=True, kw_only=True)  # extractive where the model fails
    input_tokens: int = field(default=6_000, kw_only=True)  # most of one prompt; more is folded in pieces
    thinking_tokens: int = field(default=1_000, kw_only=True)  # of a reply, for models that think first
    prompt: str = field(default="", kw_only=True)  # asks the model, in place of jiyi's own
    zone: tzinfo = field(default=UTC, kw_only=True)  # of the days in an extractive summary

    def __post_init__(self) -> None:
        check_tokens("max_tokens", self.max_tokens)
        check_tokens("input_tokens", self.input_tokens, _MIN_INPUT_TOKENS)
        check_tokens("thinking_tokens", self.thinking_tokens, 0)
        if self.prompt:
            check_prompt(self.prompt, needed=("dialogue",), others=("summary", "limit"))
        if self.language not in ("auto", "zh", "en"):
            raise InputError(f'language={self.language!r} must be "auto", "zh" or "en"')

    def __call__(
        self, given: Given, *, max_tokens: Limit = None, query: str | None = None, previous: str | None = None
    ) -> Compressed:
        """Return the texts as a summary, as `Compressor`; ``query`` is ignored.

        With ``previous``, the summary of what was said before these ("" at the beginning), it grows.
        """
        texts = Compressible(given, self.counter, "extractive", max_tokens)
        limit = self.max_tokens if max_tokens is None else max_tokens
        language = self.language
        if language == "auto":
            language = language_of(texts.whole.strip() or previous or "")
        if previous is not None:
            lines = [f"- {text}" for text in labelled(texts.messages, language, self.zone)]
            texts.tokens = self.counter.count_text("\n".join(filter(None, [previous.strip(), *lines])))
        elif texts.tokens <= limit:
            return texts.unchanged()
        previous, limit, note = previous or "", min(limit, texts.tokens), ""
        if not limit:
            return texts.result("", ())
        if self.llm is not None:
            writer = _Writer(setup=self, llm=self.llm, language=language, limit=limit)
            try:
                text, notes = writer.write(texts.messages, previous)
                return texts.result(text, texts.unchanged().sources, *notes, method="llm")
            except LLMError as error:
                if not self.fallback:
                    raise
                note = f"the language model failed, so the summary is extractive: {error}"
        text, sources = summarise(texts.messages, previous, language, limit, self.counter, zone=self.zone)
        return texts.result(text, sources, *filter(None, [note]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    """Writes summaries with a model, in pieces where it takes more than one call may."""

    setup: Summarize
    llm: LLM
    language: Language  # of the prompts and the summary
    limit: int  # most tokens of the summary

    def write(self, messages: Sequence[Message], previous: str) -> tuple[str, tuple[str, ...]]:
        """Return the new summary as bullet points, and notes; any error of a model is an `LLMError`."""
        notes: list[str] = []
        texts = list(labelled(messages, self.language, self.setup.zone))
        summary = previous
        if self.setup.counter.count_text(previous) > 2 * self.limit:  # folded as well, not cut
            texts, summary = [previous, *texts], ""
        for piece in self._split_pieces(texts, summary):
            summary = self._ask(self._fill_prompt(summary, quote(piece)), notes)
            if self.setup.counter.count_text(summary) > self.limit:
                summary = self._shorten(summary, notes)
        return summary, tuple(dict.fromkeys(notes))

    def _fill_prompt(self, summary: str, dialogue: str) -> str:
        if self.setup.prompt:
            template = Template(self.setup.prompt.strip())
            if summary.strip() and "summary" not in template.get_identifiers():
                dialogue = f"{quote(summary)}\n{dialogue}"
            return template.substitute(limit=self.limit, summary=quote(summary), dialogue=dialogue)
        prompt = load_prompt("summarize_more" if summary.strip() else "summarize", self.language)
        return prompt.substitute(limit=self.limit, summary=quote(summary), dialogue=dialogue)

    def _shorten(self, summary: str, notes: list[str]) -> str:
        try:
            prompt = load_prompt("summarize_shorter", self.language)
            shorter = self._ask(prompt.substitute(limit=self.limit, summary=quote(summary)), notes)
        except LLMError as error:
            notes.append(f"the summary could not be shortened by the language model: {error}")
            shorter = summary
        tokens = self.setup.counter.count_text(shorter)
        if tokens <= self.limit:
            return shorter
        kept = f"of its points those worth most were kept, {self.limit} tokens at most"
        notes.append(f"the language model's summary had {tokens} tokens; {kept}")
        chosen = choose(previous_points(shorter), self.limit, self.setup.counter)
        return write(chosen, self.limit, self.setup.counter)

    def _ask(self, prompt: str, notes: list[str]) -> str:
        most = 2 * self.limit + self.setup.thinking_tokens
        try:
            reply = self.llm.complete([{"role": "user", "content": prompt}], max_tokens=most)
        except LLMError:
            raise
        except Exception as error:  # a model from outside may raise anything
            raise LLMError(f"the language model failed: {error!r}; look at its adapter") from error
        points = [line for line in bullets(reply.text) if not line.startswith("```")]
        lines = [line for line in points if line.strip("*#`: ：").casefold() not in _HEADINGS]
        if reply.finish == "length" and len(lines) > 1:
            lines = lines[:-1]
            notes.append("the language model's answer was cut off; its last, unfinished point is left out")
        if not lines:
            raise BadReply("the language model wrote no summary; use a larger model")
        return "\n".join(f"- {line}" for line in dict.fromkeys(lines))

    def _split_pieces(self, texts: Sequence[str], summary: str) -> Iterator[str]:
        count = self.setup.counter.count_text
        # The prompt of later summaries is the longest, and the summary may grow.
        frame = count(self._fill_prompt(summary or " -", "")) + max(0, self.limit - count(summary))
        room = max(_MIN_PIECE_TOKENS, self.setup.input_tokens - frame)
        piece: list[str] = []
        used = 0
        for part in self._split_texts(texts, room):
            tokens = count(quote(part)) + 1
            if piece and used + tokens > room:
                yield "\n".join(piece)
                piece, used = [], 0
            piece.append(part)
            used += tokens
        if piece:
            yield "\n".join(piece)

    def _split_texts(self, texts: Sequence[str], room: int) -> Iterator[str]:
        """Yield each message, long ones in parts that end after a line or a word if possible."""
        for text in texts:
            rest = text
            while rest and self.setup.counter.count_text(quote(rest)) + 1 > room:
                part = self._cut_beginning(rest, room)
                yield part
                rest = rest[len(part) :]
            if rest.strip():
                yield rest

    def _cut_beginning(self, text: str, room: int) -> str:
        counter, take = self.setup.counter, room - 1
        part = counter.truncate(text, take)
        while len(part) > 1 and counter.count_text(quote(part)) + 1 > room:  # "> " before each line
            take = take * 3 // 4
            part = counter.truncate(text, take)
        part = part or text[:1]
        ends = (part.rfind(mark, len(part) // 2) + 1 for mark in ("\n", " ", "。"))
        return part[: next(filter(None, ends), None)]
