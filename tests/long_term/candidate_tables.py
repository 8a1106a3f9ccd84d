"""Candidates and evidence made by hand and at random, for tests of what is computed from them."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from hypothesis import strategies as st
from tables import read_tables

from jiyi.clock import to_micros
from jiyi.long_term.recall.features import build_evidence, compute_features
from jiyi.long_term.recall.outdated import compare_messages, rows_to_compare
from jiyi.long_term.recall.question import parse_question
from jiyi.long_term.recall.ranking import rank
from jiyi.records import SEARCHABLE
from jiyi.storage import ROLES, Candidates

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = 86_400 * 1_000_000  # microseconds


@dataclass(frozen=True, kw_only=True)
class Row:
    words: tuple[float, ...] = ()  # what the first terms give it; the others give nothing
    session: int = 0  # -1 for none
    speaker: str | None = "user"
    role: str | None = "user"
    kind: str = "message"
    at: float | None = None  # days after START; one second after the row before it by default
    eligible: bool = True
    traits: int = 0  # bits of `Trait`
    length: int = 10


def table(*rows, terms=("disk", "full"), idf=None):
    """Return candidates of rows given in the order they were said in each session."""
    words = np.zeros((len(rows), len(terms)), np.float32)
    for place, row in enumerate(rows):
        words[place, : len(row.words)] = row.words
    rarity = np.ones(len(terms), np.float32) if idf is None else np.array(idf, np.float32)
    speakers = tuple(dict.fromkeys(row.speaker for row in rows if row.speaker is not None))
    previous, following = np.full((2, len(rows)), -1, np.int32)
    last = {}
    for place, row in enumerate(rows):
        if row.kind == "message" and row.session >= 0:
            previous[place] = last.get(row.session, -1)
            following[previous[place]] = place if previous[place] >= 0 else following[previous[place]]
            last[row.session] = place
    moments = [place / 86_400 if row.at is None else row.at for place, row in enumerate(rows)]
    return Candidates(
        rows=np.arange(len(rows)),
        ids=[str(place) for place in range(len(rows))],
        kinds=np.array([SEARCHABLE.index(row.kind) for row in rows], np.int8),
        text=words @ rarity,
        words=words,
        eligible=np.array([row.eligible for row in rows], np.bool_),
        session=np.array([row.session for row in rows], np.int32),
        previous=previous,
        following=following,
        speaker=np.array([-1 if r.speaker is None else speakers.index(r.speaker) for r in rows], np.int32),
        speakers=speakers,
        roles=np.array([-1 if row.role is None else ROLES.index(row.role) for row in rows], np.int8),
        created_at=np.array([to_micros(START) + int(at * DAY) for at in moments], np.int64),
        traits=np.array([row.traits for row in rows], np.int32),
        length=np.array([row.length for row in rows], np.int32),
        total=len(rows),
        terms=tuple(terms),
        idf=rarity,
    )


def permuted(found, order):
    """Return the same candidates, the row that was at ``order[i]`` at place i."""
    order = np.array(order)
    place = np.empty(len(order) + 1, np.int32)
    place[order], place[-1] = np.arange(len(order)), -1
    names = [
        "rows", "kinds", "text", "words", "eligible", "session", "speaker", "roles", "created_at", "traits",
        "length",
    ]  # fmt: skip
    columns = {name: getattr(found, name)[order] for name in names}
    links = {name: place[getattr(found, name)[order]] for name in ("previous", "following")}
    return replace(found, **columns, **links)


def question(text="is the disk full?", days=0.0):
    """Return a question that is asked so many days after START."""
    return parse_question(text, datetime.fromtimestamp(START.timestamp() + days * 86_400, UTC))


def units(vectors):
    """Return vectors of length 1."""
    matrix = np.array(vectors, np.float32)
    return matrix / np.linalg.norm(matrix, axis=-1, keepdims=True)


def evidence(vectors, asked=(1.0, 0.0, 0.0)):
    """Return evidence of one vector a row; None in place of a vector: it is not there yet."""
    there = [place for place, vector in enumerate(vectors) if vector is not None]
    parts = units([vectors[place] for place in there])
    return build_evidence(np.array(there, np.intp), parts, len(vectors), units(asked))


def compared(found, asked, about, texts):
    """Rank candidates and compare the first of them, which say these texts in turn; both."""
    ranked = rank(compute_features(asked, found, about), found)
    rows = rows_to_compare(ranked)
    return ranked, compare_messages(ranked, {row: texts[row % len(texts)] for row in rows})


def at_random(seed, size, dims=6, pending=0.0):
    """Return evidence about so many rows, each without a vector at this chance; None if all are."""
    chance = np.random.default_rng(seed)
    parts = units(chance.normal(size=(size, dims)))
    there = np.flatnonzero(chance.random(size) >= pending)
    return build_evidence(there, parts[there], size, units(chance.normal(size=dims))) if len(there) else None


_KINDS = st.sampled_from(["message", "message", "message", "episode", "knowledge"])


@st.composite
def rows(draw, terms):
    kind = draw(_KINDS)
    said = kind == "message"
    return Row(
        kind=kind,
        words=tuple(draw(st.lists(st.floats(0, 1, width=32), min_size=terms, max_size=terms))),
        session=draw(st.integers(0 if said else -1, 3)),
        speaker=draw(st.sampled_from(["Ana", "Ben", "user", "assistant"])) if said else None,
        role=draw(st.sampled_from(ROLES)) if said else None,
        at=draw(st.floats(-400, 400)),
        eligible=draw(st.booleans()),
        traits=draw(st.integers(0, 2**19 - 1)),
        length=draw(st.integers(0, 5_000)),
    )


@st.composite
def tables(draw, most=12):
    """Any candidates: of one row or many, with or without words, sessions and speakers."""
    terms = draw(st.integers(0, 4))
    said = draw(st.lists(rows(terms), min_size=1, max_size=most))
    idf = draw(st.lists(st.floats(0, 12, width=32), min_size=terms, max_size=terms))
    return table(*said, terms=("disk", "full", "Ana", "2")[:terms], idf=idf)


_ASKED = [*read_tables(__file__)["questions"], "disk " + " ".join(f"word{i}" for i in range(20)), ""]
questions = st.sampled_from(_ASKED).map(question)
