"""The steps of postgres.py, each done by a process of its own.

The folder holds what `write_chat` wrote. Systems are sqlite, postgresql, and bare: statements
written by hand for the same server.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import psycopg
from chat import ask, chat, vectors_of
from numpy.typing import NDArray
from recall_systems import Lookup, timed

import jiyi
from jiyi.records import Query, Scope
from jiyi.settings import load_settings
from jiyi.storage.backend import open_backend
from jiyi.storage.place import locate
from jiyi.storage.postgres.statements import Adapters
from jiyi.text import analyse, query_terms

__all__ = [
    "LAYOUTS",
    "NEAREST",
    "SESSION",
    "STEPS",
    "WORDS",
    "BareSaves",
    "connect",
    "open_memory",
    "write_chat",
]

LAYOUTS = ("many", "one")  # many users with a few messages, and one user with as many as all of them
LIMIT = 10  # messages asked for
NEAREST = 200  # vectors that such a search asks for
WORDS = 100  # messages found by words
BUDGET = 4_000  # tokens of a window
SESSION = 30  # messages
_ADD_ROW = "INSERT INTO bench_rows VALUES (%s, %s, %s, %s, %s)"
_NEAR = "SELECT doc FROM bench_vectors WHERE tenant_id = %s ORDER BY vector <=> %s::halfvec LIMIT %s"
_FIND = (
    "SELECT doc FROM bench_words, to_tsquery('simple', %s) AS q WHERE tenant_id = %s AND words @@ q "
    "ORDER BY ts_rank(words, q) DESC LIMIT %s"
)
_ADD_WORDS = "INSERT INTO bench_words VALUES (%s, %s, to_tsvector('simple', %s))"
_TABLES = """
DROP TABLE IF EXISTS bench_rows, bench_words, bench_vectors;
CREATE TABLE bench_rows (tenant_id text, doc bigint, id text, entry bytea, body text);
CREATE TABLE bench_words (tenant_id text, doc bigint, words tsvector);
ALTER TABLE bench_rows ADD PRIMARY KEY (tenant_id, doc);
ALTER TABLE bench_words ADD PRIMARY KEY (tenant_id, doc);
CREATE TABLE bench_vectors AS SELECT tenant_id, doc, vector FROM vectors;
ALTER TABLE bench_vectors ADD PRIMARY KEY (tenant_id, doc);
"""
_USED = ("bench_vectors", "bench_words", "documents", "vectors", "sessions", "owners")

Dict = dict[str, Any]
Asked = tuple[str, str, NDArray[np.float32]]  # user, words, vector


class Vectors(Lookup):
    """Vectors of the chat's messages; what was learned from these gets one of them."""

    def embed(self, texts: Sequence[str], kind: str) -> NDArray[np.float32]:
        """Return a row for each text."""
        if self.asked is None:
            for text in texts:
                self._places.setdefault(text, crc32(text.encode()) % len(self._vectors))
        return super().embed(texts, kind)


def write_chat(folder: Path, messages: int, users: int, questions: int, places: Dict) -> None:
    """Write the chats of both layouts, a file a user, questions about them, and where the memories are."""
    _write(folder / "places.json", places)
    said, vectors = chat(messages), vectors_of(messages)
    lines = [json.dumps(one.message, ensure_ascii=False) for one in said]
    _write(folder / "texts.json", [one.message["content"] for one in said])
    np.save(folder / "vectors.npy", vectors)
    for layout, number in zip(LAYOUTS, (users, 1), strict=True):
        each, asked, near = messages // number, [], []
        for user in range(number):
            mine = slice(user * each, (user + 1) * each)
            (folder / f"{layout}-{user:03}.jsonl").write_text("\n".join(lines[mine]), encoding="utf-8")
            found, beside = ask(said[mine], vectors[mine], 1 + -(-questions // number), seed=user)
            asked += [(f"{layout}-{user:03}", question.text) for question in found]
            near.append(beside)
        _write(folder / f"{layout}.json", asked)
        np.save(folder / f"{layout}.npy", np.concatenate(near))


def load(system: str, folder: Path, layout: str) -> Dict:
    """Load a layout; return the seconds until all was stored, and from then until the vectors were."""
    embedder = Vectors(_read(folder / "texts.json"), np.load(folder / "vectors.npy"))
    with open_memory(system, folder, embedder=embedder) as memory:
        began = time.perf_counter()
        for file in sorted(folder.glob(f"{layout}-*.jsonl")):
            receipt = memory.import_(file, user_id=file.stem)
            if receipt.rejected or not receipt.added:
                raise RuntimeError(f"{file}: {receipt.added} added, {receipt.rejected[:1]}")
        stored = time.perf_counter()
        memory.flush()
        return {"text": stored - began, "vectors": time.perf_counter() - stored}


def tables(_: str, folder: Path, layouts: str) -> Dict:
    """Make the tables of the bare statements, of the same rows; return what the server is set to.

    ``layouts``: "all", or "none" to leave the table of words empty.
    """
    names = ("server_version", "fsync", "synchronous_commit", "shared_buffers")
    with closing(connect(folder)) as server:
        server.execute("SET jiyi.every_tenant TO 'on'")
        for statement in _TABLES.split(";")[:-1]:
            server.execute(statement)
        for file in sorted(folder.glob("*-*.jsonl")) if layouts == "all" else ():
            texts = [json.loads(line)["content"] for line in file.read_text("utf-8").splitlines()]
            rows = [(file.stem, doc, " ".join(analyse(text))) for doc, text in enumerate(texts)]
            with server.transaction(), server.cursor() as cursor:
                cursor.executemany(_ADD_WORDS, rows)
        server.execute("CREATE INDEX ON bench_words USING gin (words)")
        for table in _USED:
            server.execute(f"VACUUM ANALYZE {table}")
        return {name: server.execute(f"SHOW {name}").fetchone()[0] for name in names}


def read(system: str, folder: Path, layout: str) -> Dict:
    """Search, build windows and ask both indexes by themselves; return seconds.

    The first search of each user, and the first reading of a user's words, are apart.
    """
    lookup, found = Lookup(), Found()
    with open_memory(system, folder, embedder=lookup) as memory:
        _search(memory, lookup, folder, layout, found, bare=system == "postgresql")
        sessions = {user: memory.sessions(limit=1, user_id=user)[0].id for user in found.users}
        for user, text, lookup.asked in _asked(folder, layout):
            build = partial(memory.build_context, sessions[user], text, budget=BUDGET, user_id=user)
            found.time("window", user, build)
    backend = open_backend(locate(_read(folder / "places.json")[system]), load_settings())
    with closing(backend.database):
        for user, text, vector in _asked(folder, layout):
            scope = Scope(user_id=user)
            by_words = Query(scope=scope, kinds=("message",), text=text, limit=WORDS)
            found.time("words", user, partial(backend.store.match, by_words))
            wide = Query(scope=scope, text=text, limit=NEAREST)
            found.time("nearest", user, partial(backend.vectors.nearest, wide, vector))
    return found.seconds | {f"first {name}": found.first[name] for name in ("search", "words")}


def search(system: str, folder: Path, layout: str) -> Dict:
    """Search only, with the bare query between searches; return seconds."""
    lookup, found = Lookup(), Found()
    with open_memory(system, folder, embedder=lookup) as memory:
        _search(memory, lookup, folder, layout, found, bare=True)
    return found.seconds | {"first search": found.first["search"]}


def _search(
    memory: jiyi.MemoryManager, lookup: Lookup, folder: Path, layout: str, found: "Found", *, bare: bool
) -> None:
    """Time searches and, with ``bare``, the bare query after each, so that a busy machine slows both.

    "busy" is the processor time of this thread and of the server's processes, where it runs here.
    """
    lookup.asked = np.ones(384, np.float32)
    memory.search("预热 warm", user_id="nobody")
    with closing(connect(folder)) as server:
        serving = server.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'")
        files = [file for (pid,) in serving if (file := Path(f"/proc/{pid}/schedstat")).exists()]
        for user, text, lookup.asked in _asked(folder, layout):
            actions = {"search": partial(memory.search, text, limit=LIMIT, user_id=user)}
            if bare:
                actions["bare"] = _near_by_hand(server, user, lookup.asked)
            for name, action in actions.items():
                served, began = _served(files), time.thread_time()
                found.time(name, user, action)
                asked = time.thread_time() - began
                found.add(f"{name} busy", user, asked + _served(files) - served)


def _served(files: Sequence[Path]) -> float:
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


class Found:
    """Seconds by what was done, those of each user's first time apart."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.first: dict[str, list[float]] = {}
        self._met: set[tuple[str, str]] = set()

    @property
    def users(self) -> set[str]:
        """Whoever was asked about."""
        return {user for _, user in self._met}

    def time(self, name: str, user: str, action: Callable[[], object]) -> None:
        """Do it and note how long it took."""
        self.add(name, user, timed(action))

    def add(self, name: str, user: str, seconds: float) -> None:
        """Note how long it took."""
        known = (name, user) in self._met
        self._met.add((name, user))
        (self.seconds if known else self.first).setdefault(name, []).append(seconds)


def by_hand(_: str, folder: Path, layout: str) -> Dict:
    """Ask for the nearest vectors of a user, and by words with ts_rank; return seconds."""
    found = Found()
    with closing(connect(folder)) as server:
        for user, text, vector in _asked(folder, layout):
            found.time("nearest", user, _near_by_hand(server, user, vector))
            terms = " | ".join("'" + term.replace("'", "''") + "'" for term in query_terms(text))
            found.time("words", user, partial(_all, server, _FIND, (terms, user, WORDS)))
    return found.seconds


def save(system: str, folder: Path, number: str) -> Dict:
    """Save messages one after another; return seconds."""
    texts = _read(folder / "texts.json")[:200]
    if system == "bare":
        with closing(BareSaves(folder, f"bare-{number}")) as rows:
            return {"save": [timed(rows.save) for _ in texts]}
    with open_memory(system, folder, user_id=f"saver-{number}", embedder=Lookup()) as memory:
        memory.save_message("warm", role="user", content="预热 warm")
        one = partial(memory.save_message, role="user")
        return {
            "save": [
                timed(partial(one, f"s{place // SESSION}", content=text)) for place, text in enumerate(texts)
            ]
        }


class BareSaves:
    """One INSERT and COMMIT a message, with the same body, words and ids as jiyi's row of it."""

    def __init__(self, folder: Path, user_id: str) -> None:
        self._user_id, self._doc = user_id, 0
        self._server = connect(folder)
        self._server.execute("SET jiyi.every_tenant TO 'on'")
        self._rows = self._server.execute("SELECT id, entry, body FROM documents LIMIT 200").fetchall()

    def save(self) -> None:
        """Write the next row."""
        row = self._rows[self._doc % len(self._rows)]
        self._doc += 1
        self._server.execute(_ADD_ROW, (self._user_id, self._doc, *row), prepare=True)

    def close(self) -> None:
        """Close the connection."""
        self._server.close()


def open_memory(system: str, folder: Path, **options: Any) -> jiyi.MemoryManager:
    """Open a system's memory, without a worker that embeds."""
    return jiyi.open(_read(folder / "places.json")[system], background=False, learn_facts=False, **options)


def connect(folder: Path) -> psycopg.Connection[Any]:
    """Connect to the server as jiyi does: by the same address, as the same role."""
    return psycopg.connect(_read(folder / "places.json")["postgresql"], autocommit=True, context=Adapters())


def _all(server: psycopg.Connection[Any], statement: str, values: Sequence[Any]) -> list[Any]:
    return server.execute(statement, values, prepare=True).fetchall()


def _near_by_hand(
    server: psycopg.Connection[Any], user: str, vector: NDArray[np.float32]
) -> Callable[[], object]:
    return partial(_all, server, _NEAR, (user, vector.astype(np.float16), NEAREST))


def _asked(folder: Path, layout: str) -> Iterator[Asked]:
    """Yield each user's first question, then all others, users by turns."""
    asked, vectors = _read(folder / f"{layout}.json"), np.load(folder / f"{layout}.npy")
    users = len(dict.fromkeys(user for user, _ in asked))
    each = len(asked) // users
    for place in range(each):
        for user in range(users):
            at = user * each + place
            yield *asked[at], vectors[at]


def _write(file: Path, value: Dict | Sequence[Any]) -> None:
    file.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


STEPS: dict[str, Callable[[str, Path, str], Dict]] = {
    "load": load,
    "tables": tables,
    "read": read,
    "search": search,
    "by_hand": by_hand,
    "save": save,
}
