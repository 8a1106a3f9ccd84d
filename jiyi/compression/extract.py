"""Extract the items of a conversation by kind: user, topics, conclusions, to-dos."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Literal

from jiyi.compression.compressor import Compressed, Compressible, Given, Limit, as_messages
from jiyi.compression.sentences import Sentence, signs, split_messages
from jiyi.compression.words import split_words
from jiyi.extraction import Statement, extract_with
from jiyi.llm import LLM
from jiyi.prompts import wording
from jiyi.records import Message, single_valued
from jiyi.text import TokenCounter, Trait, counter_for, language, traits

__all__ = ["Extract", "Extracted", "ExtractedItem"]

_MAX_PIECE_CHARS = 3_000  # of a message, read at once
_NO_DATE = datetime(2000, 1, 1, tzinfo=UTC)  # of texts without a date; no item shows it
_MAX_TOPICS = 5
_MIN_TOPIC_SCORE = 1.0  # of a word that can be a topic
_DECISION_CONFIDENCE = 0.5  # of a sentence that only looks like a decision
_DECISION_TRAITS = Trait.DECISION | Trait.CORRECTS | Trait.CHANGES
_MAX_QUOTE_CHARS = 200  # of a quotation


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedItem:
    """An item worth keeping."""

    text: str  # as written in the conversation, or by the model
    source: str = ""  # id of the message; "" if it rests on several
    confidence: float = 0.5  # 0..1
    method: Literal["patterns", "signs", "terms", "llm"]  # read by patterns, by signs, counted, by a model


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """The items of a conversation by kind, in the order of the conversation; topics by weight."""

    user_information: tuple[ExtractedItem, ...] = ()  # who they are, what they like and have
    topics: tuple[ExtractedItem, ...] = ()  # of the conversation
    conclusions: tuple[ExtractedItem, ...] = ()  # decisions, findings, settings
    todos: tuple[ExtractedItem, ...] = ()  # duties and plans
    notes: tuple[str, ...] = ()  # warnings, such as a model that failed


@dataclass(frozen=True, slots=True)
class Extract:
    """Extracts four typed lists from a conversation; also a `Compressor` that writes them as bullets.

    - Without a model by `jiyi.extraction`'s patterns, the signs of decisions, and word counts for topics;
      with one by a JSON schema, the patterns taking over where it fails, with a note.
    - What is retracted later is left out; of two values of one point the later stands.
    - As a compressor it leaves out first what is least certain.
    - Deterministic without a model; 1,000 tokens take 30 to 60 ms.
    """

    llm: LLM | None = None  # reads the conversation; None: patterns alone
    counter: TokenCounter = field(default_factory=counter_for, kw_only=True, repr=False)

    def extract(self, given: Given) -> Extracted:
        """Return the items of the texts; raise `InputError` if ``given`` is neither text nor messages."""
        messages = as_messages(given)
        pieces = list(_split_into_pieces(messages))
        reading = extract_with(self.llm, pieces)
        method: Literal["llm", "patterns"] = reading.method
        users, conclusions, todos = (list[ExtractedItem]() for _ in range(3))
        lists = {"todo": todos, "plan": todos, "profile": users, "preference": users}
        for statement in _find_current_statements(reading.statements):
            if single_valued(statement.predicate):
                source, confidence = statement.source, statement.confidence
                text = _statement_text(statement)
                item = ExtractedItem(text=text, source=source, confidence=confidence, method=method)
                lists.get(statement.category, conclusions).append(item)
        conclusions += [ExtractedItem(text=t, confidence=0.7, method="llm") for t in reading.conclusions]
        topics = [ExtractedItem(text=topic, confidence=0.7, method="llm") for topic in reading.topics]
        known = {item.text for item in (*users, *conclusions, *todos)}
        if method == "patterns":
            for is_task, item in _find_decisions(messages, known):
                (todos if is_task else conclusions).append(item)
            places = {message.id: place for place, message in enumerate(messages)}
            for items in (todos, conclusions):
                items.sort(key=lambda item: places.get(item.source, len(places)))
            topics = _find_topics(pieces)
        return Extracted(
            user_information=_deduplicate(users),
            topics=_deduplicate(topics),
            conclusions=_deduplicate(conclusions),
            todos=_deduplicate(todos),
            notes=reading.notes if self.llm is not None else (),
        )

    def __call__(self, given: Given, *, max_tokens: Limit = None, query: str | None = None) -> Compressed:
        """Return the four lists as text, "" with a note where nothing is found; ``query`` is ignored.

        A text within ``max_tokens`` comes back as it is. Errors are those of `Compressor`.
        """
        texts = Compressible(given, self.counter, "extract", max_tokens)
        if max_tokens is not None and texts.tokens <= max_tokens:
            return texts.unchanged()
        extracted = self.extract(texts.messages)
        lists = [extracted.user_information, extracted.topics, extracted.conclusions, extracted.todos]
        rows = [(kind, item) for kind, items in enumerate(lists) for item in items]
        limit = texts.tokens if max_tokens is None else min(texts.tokens, max_tokens)
        headings, total = tuple(wording("extracted", language(texts.whole)).values()), len(rows)
        while rows and self.counter.count_text(_render(rows, headings)) > limit:
            rows.remove(min(rows, key=lambda row: row[1].confidence))
        text = _render(rows, headings)
        notes = [*extracted.notes]
        if not rows:
            notes.append("nothing was found" if not total else f"nothing fits into {limit} tokens")
        elif len(rows) < total:
            notes.append(f"{total - len(rows)} of {total} items did not fit")
        from_ids = {item.source for _, item in rows}
        sources = [message.id for message in texts.messages if message.id in from_ids]
        by_llm = any(item.method == "llm" for _, item in rows)
        return texts.result(text, sources, *notes, method="llm" if by_llm else "extract")


def _split_into_pieces(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the turns as separate messages with dates, long ones in pieces."""
    pending: list[Sentence] = []
    for sentence in [*split_messages(messages), None]:
        is_full = sum(len(part.text) for part in pending) >= _MAX_PIECE_CHARS
        if pending and (sentence is None or sentence.turn != pending[-1].turn or is_full):
            message = messages[pending[0].source]
            text = "".join(part.text for part in pending)
            label = pending[0].speaker if pending[0].labelled else ""
            if label:
                text = text[len(label) :].lstrip(" :：") or text
            is_role = label.lower() in ("user", "assistant", "用户", "助手")
            yield replace(
                message,
                content=text,
                tool_calls=(),
                name=message.name or (None if is_role or not label else label),
                role="assistant" if label.lower() in ("assistant", "助手") else message.role,
                created_at=message.created_at or _NO_DATE,
            )
            pending = []
        if sentence is not None:
            pending.append(sentence)


def _find_current_statements(statements: Sequence[Statement]) -> list[Statement]:
    """Return the statements that hold at the end: the last value of each point that was not retracted."""
    current: dict[tuple[str, ...], Statement] = {}
    for place, statement in enumerate(statements):
        point = (statement.subject.casefold(), statement.predicate.casefold())
        if statement.action == "retract":
            current = {key: kept for key, kept in current.items() if key[:2] != point}
            continue
        is_single = statement.category in ("attribute", "profile") and all(point)
        key = point if is_single else (*point, statement.object.casefold() or str(place))
        current.pop(key, None)
        current[key] = statement
    return list(current.values())


def _statement_text(statement: Statement) -> str:
    quote = " ".join(statement.quote.split()).strip(" ,，。.;；")
    if quote and len(quote) <= _MAX_QUOTE_CHARS:
        return quote
    return " ".join(part for part in (statement.subject, statement.predicate, statement.object) if part)


def _find_decisions(messages: Sequence[Message], known: set[str]) -> Iterator[tuple[bool, ExtractedItem]]:
    """Yield the sentences that no pattern read and that name a task or decide something; True: a task."""
    for sentence in split_messages(messages):
        text = " ".join(sentence.text.split()).strip(" ,，。.;；")
        if messages[sentence.source].role in ("tool", "system") or not 6 <= len(text) <= _MAX_QUOTE_CHARS:
            continue
        found_signs = traits(text)
        if found_signs & (Trait.QUESTION | Trait.SUPPOSES | Trait.REPORTS | Trait.GREETING):
            continue
        is_task = signs().task.search(text) is not None
        if not is_task and not found_signs & _DECISION_TRAITS:
            continue
        if not any(text in other or other in text for other in known):
            source, sure = messages[sentence.source].id, _DECISION_CONFIDENCE
            yield is_task, ExtractedItem(text=text, source=source, confidence=sure, method="signs")


def _find_topics(messages: Sequence[Message]) -> list[ExtractedItem]:
    """Return the words that occur in most turns, the weightiest first."""
    turns: Counter[str] = Counter()
    weight: dict[str, float] = {}
    spelling: dict[str, str] = {}
    for message in messages:
        found = {}
        for word in split_words(message.text[:_MAX_PIECE_CHARS]):
            is_topic = word.kind in ("word", "han") and word.text[0].isalpha() and len(word.text) > 1
            if is_topic and _MIN_TOPIC_SCORE <= word.worth < 3:
                found[word.text.casefold()] = word
        turns.update(found.keys())
        for key, word in found.items():
            weight[key] = max(weight.get(key, 0.0), word.worth)
            spelling.setdefault(key, word.text)
    ranked = sorted(turns, key=lambda key: (-turns[key] * weight[key], key))
    best = [key for key in ranked if turns[key] > 1][:_MAX_TOPICS]
    most = max((turns[key] for key in best), default=1)
    confidence = {key: round(0.5 * turns[key] / most, 2) for key in best}
    return [ExtractedItem(text=spelling[key], confidence=confidence[key], method="terms") for key in best]


def _deduplicate(items: Sequence[ExtractedItem]) -> tuple[ExtractedItem, ...]:
    return tuple({item.text.casefold(): item for item in items}.values())


def _render(rows: Sequence[tuple[int, ExtractedItem]], headings: Sequence[str]) -> str:
    lines = []
    for kind, items in groupby(rows, key=itemgetter(0)):
        lines += [f"## {headings[kind]}", *(f"- {' '.join(item.text.split())}" for _, item in items)]
    return "\n".join(lines)
