"""The embedder of an evaluation: what it costs is measured, what it made can be kept on disk."""

import hashlib
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Self

import numpy as np
from numpy.typing import NDArray

from jiyi.embeddings import Embedder, TextKind, Vectors32
from jiyi.embeddings.embedder import check_inputs
from jiyi.errors import StorageError

__all__ = ["MeasuredEmbedder", "Reading", "VectorFolder"]

_FILE = "vectors.sqlite"
_TABLE = """
CREATE TABLE IF NOT EXISTS vectors (
    embedder TEXT, kind TEXT, sha256 BLOB, vector BLOB, PRIMARY KEY (embedder, kind, sha256)
) WITHOUT ROWID
"""
_SELECT = "SELECT vector FROM vectors WHERE embedder = ? AND kind = ? AND sha256 = ?"

_Row = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a `MeasuredEmbedder` has cost so far; what lies between two readings is their difference."""

    seconds: float = 0.0  # spent in `embed`, caches included
    query_seconds: float = 0.0  # what the queries asked for took when they were embedded
    unknown: int = 0  # queries asked for of which that is not known: they came from disk
    from_disk: int = 0  # vectors that an earlier run had made

    def __sub__(self, earlier: "Reading") -> "Reading":
        return Reading(**{name: value - getattr(earlier, name) for name, value in asdict(self).items()})

    def __add__(self, more: "Reading") -> "Reading":
        return Reading(**{name: value + getattr(more, name) for name, value in asdict(self).items()})


class MeasuredEmbedder:
    """An `Embedder` that embeds each text once and knows what it took.

    Same name, size and answers as the embedder inside. Every vector stays in memory, so that several
    systems can be asked for one price; with a ``folder`` it is also looked for and kept there.
    """

    def __init__(self, inner: Embedder, folder: "VectorFolder | None" = None) -> None:
        self._inner = inner
        self._folder = folder
        self._rows: dict[tuple[TextKind, bytes], _Row] = {}
        self._took: dict[bytes, float] = {}  # seconds, by query
        self._total = Reading()
        self._lock = Lock()

    @property
    def name(self) -> str:
        """Identity of the embedder inside."""
        return self._inner.name

    @property
    def dims(self) -> int:
        """The vector length of the embedder inside."""
        return self._inner.dims

    def read(self) -> Reading:
        """Return what it has cost so far."""
        return self._total

    def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors32:
        """As `Embedder.embed`, sending on only what is new; StorageError where the folder failed."""
        started = time.perf_counter()
        items = check_inputs(texts, kind)
        if not items:
            return self._inner.embed([], kind)
        keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in items]
        new = {k: t for k, t in zip(keys, items, strict=True) if (kind, k) not in self._rows}
        stored = self._folder.get(self.name, kind, new, self.dims) if self._folder and new else {}
        fresh = self._fresh({key: text for key, text in new.items() if key not in stored}, kind)
        self._rows |= {(kind, key): row for key, row in (stored | fresh).items()}
        matrix = np.stack([self._rows[kind, key] for key in keys])
        asked = [self._took.get(key) for key in keys] if kind == "query" else []
        cost = Reading(
            seconds=time.perf_counter() - started,
            query_seconds=sum(took for took in asked if took is not None),
            unknown=asked.count(None),
            from_disk=len(stored),
        )
        with self._lock:
            self._total += cost
        return matrix

    def _fresh(self, texts: Mapping[bytes, str], kind: TextKind) -> dict[bytes, _Row]:
        if not texts:
            return {}
        started = time.perf_counter()
        rows = [row.copy() for row in self._inner.embed(list(texts.values()), kind)]
        if kind == "query":
            each = (time.perf_counter() - started) / len(texts)
            self._took |= dict.fromkeys(texts, each)
        made = dict(zip(texts, rows, strict=True))
        if self._folder:
            self._folder.put(self.name, kind, made)
        return made


class VectorFolder:
    """Vectors on disk, by embedder, kind of text and the text's SHA-256; the folder may be deleted any time.

    Raises:
        StorageError: the folder cannot be made, read or written, or holds another file of its name.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._lock = Lock()
        with self._errors():
            self._path.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self._path / _FILE, check_same_thread=False)
            try:
                # What is lost in a crash is embedded again: no need to wait for the disk.
                self._connection.execute("PRAGMA synchronous = OFF")
                self._connection.execute(_TABLE)
            except sqlite3.Error:
                self._connection.close()
                raise

    def get(self, embedder: str, kind: TextKind, keys: Iterable[bytes], dims: int) -> dict[bytes, _Row]:
        """Return the vectors of ``dims`` numbers that are there, by key."""
        found = {}
        with self._errors(), self._lock:
            for key in keys:
                row = self._connection.execute(_SELECT, (embedder, kind, key)).fetchone()
                if row and len(row[0]) == 4 * dims:
                    found[key] = np.frombuffer(row[0], "<f4").astype(np.float32)
        return found

    def put(self, embedder: str, kind: TextKind, vectors: Mapping[bytes, _Row]) -> None:
        """Keep vectors by key."""
        rows = [(embedder, kind, key, row.astype("<f4").tobytes()) for key, row in vectors.items()]
        with self._errors(), self._lock, self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", rows)

    def close(self) -> None:
        """Release the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StorageError(
                f"the vectors in {self._path} cannot be used ({reason}); delete {self._path / _FILE} "
                "or name another folder"
            ) from error
