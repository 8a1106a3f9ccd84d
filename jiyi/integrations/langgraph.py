"""LangGraph: a store whose items are in the memory, for synchronous and asynchronous graphs."""

import asyncio
import threading
import warnings
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from copy import deepcopy
from functools import partial, wraps
from itertools import accumulate, islice, takewhile
from typing import Any, TypeVar

from jiyi.integrations.common import log_errors, read_all, require_framework
from jiyi.integrations.langgraph_filter import StoreFilter
from jiyi.long_term import ForgetReceipt
from jiyi.manager import MemoryManager
from jiyi.records import Item, Scope
from jiyi.storage.database import grouped
from jiyi.wiring import open as open_memory

with require_framework("LangGraph", "langgraph"):
    from langgraph.store import base
    from langgraph.store.base.batch import AsyncBatchedBaseStore

UserFrom = Callable[[tuple[str, ...]], str]
"""Says whose items are in a namespace, such as ``lambda namespace: namespace[1]``."""

_USER = "langgraph"
_RESERVED = "langgraph"  # the first label of what is LangGraph's own, such as checkpoints
_PAGE_SIZE = 10_000  # records that one verb returns
_SWEEP_MINUTES = 5.0

_Namespace = tuple[str, ...]
_T = TypeVar("_T")


class FoundItem(base.SearchItem):
    """An item that a query found.

    ``score`` is the cosine similarity of its text and the query, but no lower than that of an item after it:
    the order is the memory's, which goes by words, too. For the other fields see `describe_hit`.
    """

    __slots__ = ("nothing_relevant", "relevance", "why")


class JiyiStore(base.BaseStore):
    """A store of LangGraph in a memory: its items are searched, forgotten and exported as other records.

    - A batch reads first, then writes: all puts and deletes in one transaction, the last of a key.
    - Namespaces match by whole labels. Without a query, the item that was changed last comes first; a
      query finds by words and by the memory's own embedder.
    - ``memory.restore`` brings back what is deleted. An item whose time is over is not shown, swept or not.

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
        index: base.IndexConfig | None = None,
        ttl: base.TTLConfig | None = None,
    ) -> None:
        _ = memory.parts  # raises for a memory on a server
        self.memory = memory
        self.index_config = index
        self.ttl_config = ttl
        self._user_id = user_id
        self._user_from = user_from
        self._indexed_paths = _read_indexed_paths(index)
        self._users: set[str | None] = {user_id} if user_from is None else set()
        self._sweeper: threading.Thread | None = None
        self._stop = threading.Event()

    @classmethod
    @contextmanager
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        user_from: UserFrom | None = None,
        index: base.IndexConfig | None = None,
        ttl: base.TTLConfig | None = None,
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

    def batch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Do operations and return their results in the same order.

        Raises:
            InvalidNamespaceError: a namespace that cannot be, or that does not say whose it is.
            InputError: a value that is no JSON, or a filter that cannot be. Nothing was changed.
        """
        operations = list(ops)
        for op in operations:
            _check_namespace(op)
        gets = [op for op in operations if isinstance(op, base.GetOp)]
        items = self._get_items((tuple(op.namespace), op.key) for op in gets)
        results = [self._read(op, items) for op in operations]
        self._write([op for op in operations if isinstance(op, base.PutOp)])
        return results

    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Do operations in a worker thread; see `batch`."""
        return await asyncio.to_thread(self.batch, list(ops))

    def check(self, op: base.PutOp | base.SearchOp) -> None:
        """Refuse what cannot be done, as `batch` does, before it is done together with what can."""
        _check_namespace(op)
        if isinstance(op, base.SearchOp):
            self._find_user(tuple(op.namespace_prefix))
            StoreFilter(op.filter)
        else:
            namespace, now = tuple(op.namespace), self.memory.parts.clock()
            scope = Scope(user_id=self._find_user(namespace) or "anyone")
            Item(scope=scope, namespace=namespace, key=op.key, value=op.value, created_at=now, updated_at=now)

    def delete_namespace(self, namespace: Sequence[str]) -> ForgetReceipt:
        """Delete the items of a namespace and of those below it; ``memory.restore`` brings them back."""
        labels = tuple(namespace)
        _check_namespace(base.PutOp(labels, "", {}))
        user = self._find_user(labels)
        return self.memory.forget(namespace=labels, reason="namespace deleted", user_id=user)

    def sweep_ttl(self) -> int:
        """Drop the items whose time is over, of the users this store has served; return how many."""
        is_over = {"kind": "item", "expires_at": {"lte": self.memory.parts.clock()}}
        forget = partial(self.memory.forget, filters=is_over, reason="expired")
        swept = 0
        for user in list(self._users):
            if forget(user_id=user, dry_run=True).total:  # a purge overwrites, even where nothing goes
                swept += forget(user_id=user, purge=True).total
        return swept

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """Sweep in a thread every so often until `stop_ttl_sweeper`; without a TTL configuration never."""
        if self.ttl_config is None or (self._sweeper and self._sweeper.is_alive()):
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
            with log_errors("expired items could not be swept; the next turn tries again"):
                self.sweep_ttl()

    def _find_user(self, labels: _Namespace) -> str | None:
        if self._user_from is None:
            return self._user_id
        try:
            user = self._user_from(labels)
        except LookupError as error:
            raise base.InvalidNamespaceError(f"the namespace {labels} does not say whose it is") from error
        self._users.add(user)
        return user

    def _get_items(self, places: Iterable[tuple[_Namespace, str]]) -> dict[tuple[_Namespace, str], Item]:
        """Return those items that exist; those of a namespace are read at once."""
        return {
            (namespace, item.key): item
            for namespace, own_keys in grouped(places).items()
            for item in self.memory.get_items(namespace, own_keys, user_id=self._find_user(namespace))
        }

    def _read(self, op: base.Op, items: Mapping[tuple[_Namespace, str], Item]) -> base.Result:
        match op:
            case base.GetOp():
                if item := items.get((tuple(op.namespace), op.key)):
                    self._refresh([item] if op.refresh_ttl else ())
                    return base.Item(**_fields_of(item))
            case base.SearchOp():
                return self._search(op)
            case base.ListNamespacesOp():
                return self._list_namespaces(op)
        return None

    def _search(self, op: base.SearchOp) -> list[base.SearchItem]:
        if op.limit < 1:
            return []
        find = self._rank if op.query and op.query.strip() else self._list_newest
        results = find(op, StoreFilter(op.filter))
        self._refresh(item for item, _ in results if op.refresh_ttl)
        return [shown for _, shown in results]

    def _refresh(self, items: Iterable[Item]) -> None:
        for item in items:
            if item.ttl is not None:
                self.memory.get_item(item.namespace, item.key, refresh=True, user_id=item.scope.user_id)

    def _rank(self, op: base.SearchOp, asked: StoreFilter) -> list[tuple[Item, base.SearchItem]]:
        end, prefix = op.offset + op.limit, tuple(op.namespace_prefix)
        hits = self.memory.search(
            str(op.query),
            kinds="item",
            namespace=prefix,
            filters=asked.build("value."),
            limit=_PAGE_SIZE if asked.rest else min(end, _PAGE_SIZE),
            user_id=self._find_user(prefix),
        )
        pairs = [(hit, hit.record) for hit in hits if isinstance(hit.record, Item)]
        found = [(hit, item) for hit, item in pairs if asked.matches_rest(item.value)][:end]
        scores = list(accumulate((hit.similarity for hit, _ in reversed(found)), max))[::-1]
        results: list[tuple[Item, base.SearchItem]] = []
        for (hit, item), score in list(zip(found, scores, strict=True))[op.offset :]:
            shown = FoundItem(**_fields_of(item), score=score)
            shown.relevance, shown.nothing_relevant = hit.relevance, hits.nothing_relevant
            shown.why = dict(hit.why)
            results.append((item, shown))
        return results

    def _list_newest(self, op: base.SearchOp, asked: StoreFilter) -> list[tuple[Item, base.SearchItem]]:
        end, prefix = op.offset + op.limit, tuple(op.namespace_prefix)
        options = {"limit": min(end, _PAGE_SIZE), "user_id": self._find_user(prefix)}
        items = read_all(self.memory.items, prefix, filters=asked.build(), **options)
        found = (i for i in items if i.namespace[0] != _RESERVED and asked.matches_rest(i.value))
        return [(item, base.SearchItem(**_fields_of(item))) for item in islice(found, op.offset, end)]

    def _list_namespaces(self, op: base.ListNamespacesOp) -> list[_Namespace]:
        conditions = op.match_conditions or ()
        # The memory is asked for one of each; an operation may have more.
        prefix = next((tuple(c.path) for c in conditions if c.match_type == "prefix"), ())
        suffix = next((tuple(c.path) for c in conditions if c.match_type == "suffix"), ())
        user = self._find_user(tuple(takewhile(lambda label: label != "*", prefix)))
        found = [
            labels[: op.max_depth]
            for labels in self.memory.namespaces(prefix, suffix=suffix, limit=_PAGE_SIZE, user_id=user)
            if labels[0] != _RESERVED and all(_matches(labels, condition) for condition in conditions)
        ]
        return list(dict.fromkeys(found))[op.offset : op.offset + op.limit]

    def _write(self, ops: Sequence[base.PutOp]) -> None:
        last = {(tuple(op.namespace), op.key): op for op in ops}
        deleted = [place for place, op in last.items() if op.value is None]
        puts: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
        for (namespace, key), op in last.items():
            if op.value is not None:
                entry = {"namespace": namespace, "key": key, "value": op.value, "text": self._text_of(op)}
                puts[self._find_user(namespace)].append({**entry, "ttl": op.ttl and op.ttl * 60})

        def write() -> None:
            for user, entries in puts.items():
                self.memory.put_items(entries, user_id=user)
            items = self._get_items(deleted).values()
            for owner, ids in grouped((item.scope.user_id, item.id) for item in items).items():
                self.memory.forget(ids=ids, reason="deleted", user_id=owner)

        if last:
            self.memory.parts.store.together(write)

    def _text_of(self, op: base.PutOp) -> str | None:
        """Return what of a value is searched; None where it is all of its texts."""
        if op.index is False:
            return ""
        paths = self._indexed_paths if op.index is None else op.index
        if paths is None or "$" in paths:
            return None
        return "\n".join(text for path in paths for text in base.get_text_at_path(op.value, path))


def _in_thread(method: Callable[..., _T]) -> Callable[..., Coroutine[Any, Any, _T]]:
    """Return a method of `JiyiStore` for `AsyncJiyiStore`, which runs it in a thread."""

    @wraps(method)
    async def run(self: "AsyncJiyiStore", *args: Any, **kwargs: Any) -> _T:
        return await asyncio.to_thread(method, self._store, *args, **kwargs)

    return run


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

    setup = _in_thread(JiyiStore.setup)
    abatch = _in_thread(JiyiStore.batch)

    async def aput(self, namespace: _Namespace, key: str, value: Any, *args: Any, **kwargs: Any) -> None:
        """Put an item; one that cannot be kept is refused alone, not with the calls of the same turn."""
        self._store.check(base.PutOp(namespace, key, value))
        await super().aput(namespace, key, value, *args, **kwargs)

    async def asearch(self, namespace_prefix: _Namespace, /, **kwargs: Any) -> list[base.SearchItem]:
        """Search; a filter that cannot be is refused alone, not with the calls of the same turn."""
        self._store.check(base.SearchOp(namespace_prefix, kwargs.get("filter")))
        results: list[base.SearchItem] = await super().asearch(namespace_prefix, **kwargs)
        return results

    delete_namespace = _in_thread(JiyiStore.delete_namespace)
    sweep_ttl = _in_thread(JiyiStore.sweep_ttl)
    start_ttl_sweeper = _in_thread(JiyiStore.start_ttl_sweeper)
    stop_ttl_sweeper = _in_thread(JiyiStore.stop_ttl_sweeper)


def _check_namespace(op: base.Op) -> None:
    """Refuse what methods of `BaseStore` would refuse: a batch may be given directly."""
    base.validate_op_namespace(op)
    if isinstance(op, base.PutOp) and op.value is not None:
        if not op.namespace:
            raise base.InvalidNamespaceError("a namespace needs at least one label")
        if op.namespace[0] == _RESERVED:
            raise base.InvalidNamespaceError(f"a namespace cannot begin with {_RESERVED!r}")


def _fields_of(item: Item) -> dict[str, Any]:
    copied = {"value": deepcopy(item.value), "created_at": item.created_at, "updated_at": item.updated_at}
    return {"namespace": item.namespace, "key": item.key, **copied}


def _read_indexed_paths(index: Mapping[str, Any] | None) -> list[str] | None:
    """Return the paths that an index configuration names; None where it names none."""
    fields = index or {}
    if fields.get("embed") is not None:
        message = "dims and embed of the index are not used: the memory has its own embedder"
        warnings.warn(message, stacklevel=3)
    paths = fields.get("fields") or fields.get("text_fields")  # SqliteStore's name for it
    return [paths] if isinstance(paths, str) else paths


def _matches(labels: _Namespace, condition: base.MatchCondition) -> bool:
    path: Sequence[str] = condition.path
    if condition.match_type == "suffix":
        labels, path = labels[::-1], path[::-1]
    return len(labels) >= len(path) and all(b in ("*", a) for a, b in zip(labels, path, strict=False))
