"""LangGraph: a store whose items are in the memory.

``pip install "jiyi[langgraph]"``. `JiyiStore` serves synchronous and asynchronous graphs; `AsyncJiyiStore`
makes one batch of the calls of one turn of an event loop.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from jiyi.integrations.common import require_framework
from jiyi.integrations.langgraph_ops import FoundItem, Operations, UserFrom
from jiyi.long_term import ForgetReceipt
from jiyi.manager import MemoryManager
from jiyi.wiring import open_memory

with require_framework("LangGraph", "langgraph"):
    from langgraph.store.base import (
        BaseStore,
        IndexConfig,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
    )
    from langgraph.store.base.batch import AsyncBatchedBaseStore

__all__ = ["AsyncJiyiStore", "FoundItem", "JiyiStore", "UserFrom"]

_USER = "langgraph"
_SWEEP_MINUTES = 5.0

_log = logging.getLogger("jiyi.integrations")


class JiyiStore(Operations, BaseStore):
    """A store of LangGraph in a memory: its items are searched, forgotten and exported as other records.

    - A batch reads first, then writes: all puts and deletes in one transaction, the last of a key.
    - Namespaces match by whole labels. Without a query, the item that was changed last comes first.
    - A query finds by words and by the memory's own embedder, with or without an index configuration.
    - What is deleted lies in the memory's trash, from where ``memory.restore`` brings it back.
    - An item whose time is over is not shown, swept or not, whatever ``omit_expired`` says.

    Args:
        memory: where the items are kept; it stays open.
        user_id: whose they are; by default whom the memory was opened for.
        user_from: says whose, by the namespace; it goes before ``user_id``. A namespace that it raises
            `LookupError` for, such as a prefix that is too short, is refused.
        index: its ``fields`` say what of a value is searched, by default all texts in it.
        ttl: as in LangGraph, in minutes.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: MemoryManager,
        *,
        user_id: str | None = None,
        user_from: UserFrom | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        super().__init__(memory, user_id, user_from, index)
        self.index_config = index
        self.ttl_config = ttl
        self._sweeper: threading.Thread | None = None
        self._stop = threading.Event()

    @classmethod
    @contextmanager
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        user_from: UserFrom | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        **options: Any,
    ) -> Iterator["JiyiStore"]:
        """Open a memory and give a store in it; ``options`` are those of `jiyi.open`.

        Where no ``user_id`` is given, the items are those of a user "langgraph".
        """
        with open_memory(conn_string, **{"user_id": _USER, **options}) as memory:
            store = cls(memory, user_from=user_from, index=index, ttl=ttl)
            try:
                yield store
            finally:
                store.stop_ttl_sweeper()

    def setup(self) -> None:
        """Do nothing: a memory that is open has its tables."""

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations in a worker thread; see `batch`."""
        return await asyncio.to_thread(self.batch, list(ops))

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """Sweep in a thread every so often until `stop_ttl_sweeper`; without a TTL configuration never."""
        if self.ttl_config is None or (self._sweeper is not None and self._sweeper.is_alive()):
            return
        minutes = sweep_interval_minutes or self.ttl_config.get("sweep_interval_minutes") or _SWEEP_MINUTES
        self._stop.clear()
        self._sweeper = threading.Thread(target=self._sweep, args=(minutes * 60,), daemon=True)
        self._sweeper.start()

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """End that thread, wait for it at most ``timeout`` seconds, and say whether it has ended."""
        self._stop.set()
        if self._sweeper is not None:
            self._sweeper.join(timeout)
        return self._sweeper is None or not self._sweeper.is_alive()

    def _sweep(self, seconds: float) -> None:
        while not self._stop.wait(seconds):
            try:
                self.sweep_ttl()
            except Exception:
                _log.exception("expired items could not be swept; the next turn tries again")


class AsyncJiyiStore(AsyncBatchedBaseStore):
    """A `JiyiStore` for one event loop, made in it: calls of the same turn of the loop are one batch.

    Its arguments are those of `JiyiStore`. What is called without ``await`` works from other threads; in
    the loop's own it raises `asyncio.InvalidStateError`.
    """

    supports_ttl = True

    def __init__(self, memory: MemoryManager, **options: Any) -> None:
        super().__init__()
        self._store = JiyiStore(memory, **options)
        self.index_config = self._store.index_config
        self.ttl_config = self._store.ttl_config

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, conn_string: str, **options: Any) -> AsyncIterator["AsyncJiyiStore"]:
        """Open a memory and give a store in it; the arguments are those of `JiyiStore.from_conn_string`."""
        own = {name: options.pop(name) for name in ("user_from", "index", "ttl") if name in options}
        memory = await asyncio.to_thread(open_memory, conn_string, **{"user_id": _USER, **options})
        store = cls(memory, **own)
        try:
            yield store
        finally:
            await store.stop_ttl_sweeper()
            await asyncio.to_thread(memory.close)

    async def setup(self) -> None:
        """Do nothing: a memory that is open has its tables."""

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations in a worker thread; see `JiyiStore.batch`."""
        return await self._store.abatch(ops)

    async def aput(self, namespace: tuple[str, ...], key: str, value: Any, *more: Any, **named: Any) -> None:
        """Put an item; one that cannot be kept is refused alone, not with the calls of the same turn."""
        self._store.check(PutOp(namespace, key, value))
        await super().aput(namespace, key, value, *more, **named)

    async def asearch(self, namespace_prefix: tuple[str, ...], /, **asked: Any) -> list[SearchItem]:
        """Search; a filter that cannot be is refused alone, not with the calls of the same turn."""
        self._store.check(SearchOp(namespace_prefix, asked.get("filter")))
        found: list[SearchItem] = await super().asearch(namespace_prefix, **asked)
        return found

    async def delete_namespace(self, namespace: Sequence[str]) -> ForgetReceipt:
        """Delete the items of a namespace and of those below it; see `JiyiStore.delete_namespace`."""
        return await asyncio.to_thread(self._store.delete_namespace, namespace)

    async def sweep_ttl(self) -> int:
        """Drop the items whose time is over; see `JiyiStore.sweep_ttl`."""
        return await asyncio.to_thread(self._store.sweep_ttl)

    async def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """Sweep in a thread every so often; see `JiyiStore.start_ttl_sweeper`."""
        self._store.start_ttl_sweeper(sweep_interval_minutes)

    async def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """End that thread; see `JiyiStore.stop_ttl_sweeper`."""
        return await asyncio.to_thread(self._store.stop_ttl_sweeper, timeout)
