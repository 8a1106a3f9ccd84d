"""An embedder whose vectors stay on disk, for benches that embed the same texts at every run."""

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Self

import numpy as np

from jiyi.embeddings import Embedder, TextKind, Vectors32

TABLE = """
CREATE TABLE IF NOT EXISTS vectors (
    embedder TEXT, kind TEXT, sha256 BLOB, vector BLOB, PRIMARY KEY (embedder, kind, sha256)
) WITHOUT ROWID
"""
SELECT = "SELECT vector FROM vectors WHERE embedder = ? AND kind = ? AND sha256 = ?"


class KeptEmbedder:
    """Looks in ``FOLDER/vectors.sqlite`` first, and keeps there what it makes; may be deleted any time."""

    def __init__(self, inner: Embedder, folder: str | Path) -> None:
        self._inner = inner
        self.name, self.dims = inner.name, inner.dims
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._lock = Lock()
        self._connection = sqlite3.connect(Path(folder) / "vectors.sqlite", check_same_thread=False)
        # What is lost in a crash is embedded again: no need to wait for the disk.
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.execute(TABLE)

    def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors32:
        """As `Embedder.embed`, sending on only what is new."""
        if not texts:
            return self._inner.embed([], kind)
        keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        by_key = dict(zip(keys, texts, strict=True))
        with self._lock:
            rows = self._rows(by_key, kind)
        return np.stack([rows[key] for key in keys])

    def _rows(self, by_key: Mapping[bytes, str], kind: TextKind) -> dict[bytes, np.ndarray]:
        rows: dict[bytes, np.ndarray] = {}
        for key in by_key:
            row = self._connection.execute(SELECT, (self.name, kind, key)).fetchone()
            if row:
                rows[key] = np.frombuffer(row[0], "<f4").astype(np.float32)
        if fresh := [key for key in by_key if key not in rows]:
            rows |= zip(fresh, self._inner.embed([by_key[key] for key in fresh], kind), strict=True)
            new = [(self.name, kind, key, rows[key].astype("<f4").tobytes()) for key in fresh]
            with self._connection:
                self._connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", new)
        return rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
