"""A plugin for pytest: LangGraph's own tests of stores get ours in place of its SQLite stores."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import langgraph.store.sqlite
import langgraph.store.sqlite.aio
import langgraph.store.sqlite.base
import numpy as np
from langgraph.store.base import Op, PutOp, Result

import jiyi
from jiyi.integrations.langgraph import AsyncJiyiStore, JiyiStore
from jiyi.testing import HashEmbedder


class Embedder:
    """The suite's embeddings; a memory is opened with them, an index configuration is not asked."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs
        self.name = "theirs"
        self.dims = theirs.dims

    def embed(self, texts: Sequence[str], kind: str) -> Any:
        return np.array(self._theirs.embed_documents(list(texts)), np.float32)


@contextmanager
def opened(conn_string: str, index: dict[str, Any] | None) -> Iterator[jiyi.MemoryManager]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory())) if conn_string == ":memory:" else None
        embedder = HashEmbedder() if index is None else Embedder(index["embed"])
        file = folder / "m.db" if folder else conn_string
        yield stack.enter_context(jiyi.open(file, user_id="ana", embedder=embedder, background=False))


class Store(JiyiStore):
    """Takes what `SqliteStore` takes; vectors follow at once, not in the background."""

    def __init__(self, memory: jiyi.MemoryManager, **options: Any) -> None:
        super().__init__(memory, **options)
        self.memory = memory
        self.embeddings = (options.get("index") or {}).get("embed")

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str, *, index: Any = None, ttl: Any = None) -> Iterator["Store"]:
        with opened(conn_string, index) as memory:
            store = cls(memory, index=index, ttl=ttl)
            yield store
            store.stop_ttl_sweeper()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        asked = list(ops)
        results = super().batch(asked)
        if any(isinstance(op, PutOp) for op in asked):
            self.memory.flush()
        return results


class AsyncStore(AsyncJiyiStore):
    """Takes what `AsyncSqliteStore` takes."""

    def __init__(self, memory: jiyi.MemoryManager, **options: Any) -> None:
        super().__init__(memory, **options)
        self.memory = memory

    @classmethod
    @asynccontextmanager
    async def from_conn_string(
        cls, conn_string: str, *, index: Any = None, ttl: Any = None
    ) -> AsyncIterator["AsyncStore"]:
        with opened(conn_string, index) as memory:
            store = cls(memory, index=index, ttl=ttl)
            yield store
            await store.stop_ttl_sweeper()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        results = await super().abatch(ops)
        self.memory.flush()
        return results


for module in (langgraph.store.sqlite, langgraph.store.sqlite.base):
    module.SqliteStore = Store
for module in (langgraph.store.sqlite, langgraph.store.sqlite.aio):
    module.AsyncSqliteStore = AsyncStore
