"""Ask memories the questions of evaluation files, and keep what recall sees of each, before any weight."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from change import load
from kept import KeptEmbedder

from jiyi.embeddings import E5Embedder
from jiyi.evaluate import Conversation, Question, open_sqlite
from jiyi.evaluate.systems import MemorySystem
from jiyi.long_term.recall.features import Features
from jiyi.long_term.recall.question import parse_question
from jiyi.manager import MemoryManager
from jiyi.records import Query
from jiyi.storage import Candidates

INNER = 3  # parts of which each is judged by what was learned from the others
STRANGERS = 1 / 3  # questions of other conversations for each own one


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A question, asked to a memory."""

    file: str
    part: int  # of `INNER`, the same for a conversation
    question: Question
    table: Candidates
    features: Features
    texts: Mapping[int, str]  # words of the rows that may be judged
    evidence: tuple[int, ...]  # rows; missed ones are not in it
    stale: frozenset[int]
    replaced: frozenset[tuple[int, int]] | None  # rows: a message and one that took its place; None: unknown
    wanted: int  # evidence messages there are; 0: nothing answers
    own: bool  # of this conversation

    @property
    def family(self) -> str:
        return "talks" if self.file.endswith(".txt") else re.sub(r"-(zh|en)\b.*", "", self.file)

    @property
    def of_change(self) -> bool:
        return bool(self.question.kind)


def ask_all(files: Sequence[str], vectors: str) -> Iterator[Asked]:
    """Fill a memory with each conversation and ask its own and some others' questions."""
    loaded = [load(file) for file in files]
    with KeptEmbedder(E5Embedder(threads=2), vectors) as embedder:
        for dataset, changes in loaded:
            for conversation in dataset.conversations:
                draw = random.Random(f"{dataset.file}/{conversation.id}")
                mine = list(conversation.questions)
                others = [q for q in dataset.questions if q not in mine and q.answerable]
                some = draw.sample(others, min(len(others), round(STRANGERS * len(mine))))
                known = changes.get(conversation.id)
                pairs = known.replaced if known else None
                with open_sqlite(embedder) as memory:
                    system = MemorySystem(memory, draw)
                    system.load(conversation)
                    system.finish(lambda _done: None)
                    part = crc32(f"{dataset.file}/{conversation.id}".encode()) % INNER
                    for number, question in enumerate([*mine, *some]):
                        part = part if len(dataset.conversations) > 1 else number % INNER
                        one = ask(memory, conversation, question, question in mine, pairs)
                        if one:
                            yield replace(one, file=dataset.file, part=part)
            print(f"asked {dataset.file}", flush=True)


def ask(
    memory: MemoryManager,
    conversation: Conversation,
    question: Question,
    own: bool,
    pairs: set[tuple[str, str]] | None,
) -> Asked | None:
    """Return what recall sees of a question; None for an own one without evidence that could be found."""
    if own and not question.answerable and not question.abstain:
        return None
    scope = memory._scope(None, None)
    query = Query(scope=scope, kinds=("message",), text=question.text, asked_at=question.asked_at)
    recall = memory._long_term.recall
    parsed = parse_question(question.text, question.asked_at or recall.clock(), recall.zone)
    table, features, _ = recall.find_candidates(query, parsed, recall.store.snapshot(scope.user_id))
    if features is None:
        return None
    wanted = set(question.evidence) if own and question.answerable else set()
    rows = {id_: row for row, (_, id_) in enumerate(table.keys)}
    words = {message.id: message.search_text for message in conversation.messages}
    evidence = tuple(rows[id_] for id_ in wanted if id_ in rows)
    taken = None
    if pairs is not None:
        taken = frozenset((rows[a], rows[b]) for a, b in pairs if a in rows and b in rows)
    return Asked(
        file="",
        part=0,
        question=question,
        table=table,
        features=features,
        texts={row: words[id_] for row, (_, id_) in enumerate(table.keys)},
        evidence=evidence,
        stale=frozenset(rows[id_] for id_ in question.stale if own and id_ in rows) - set(evidence),
        replaced=taken,
        wanted=len(wanted),
        own=own,
    )
