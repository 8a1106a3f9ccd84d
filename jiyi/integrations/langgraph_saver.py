"""LangGraph: a checkpointer that keeps threads in a memory, each value of a channel once.

``pip install "jiyi[langgraph]"``. Checkpoints, their writes and the values they need are items below the
label ``langgraph``; no search finds them. They belong to the conversation that is named like the thread.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import wraps
from itertools import islice
from typing import Any

from jiyi.errors import InputError
from jiyi.integrations.common import finish, require_framework
from jiyi.integrations.langgraph_threads import Place, Threads, matches, superseded
from jiyi.integrations.langgraph_values import Packer, Row, decoded, encoded, unpacked
from jiyi.manager import MemoryManager
from jiyi.records import Item

with require_framework("LangGraph", "langgraph"):
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        get_checkpoint_id,
        get_checkpoint_metadata,
        writes_sort_key,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

__all__ = ["JiyiSaver", "UserOf"]

UserOf = Callable[[RunnableConfig], str | None]
"""Says whose thread it is, by the configuration of a run."""

_DELTA_CHANNELS = "counters_since_delta_snapshot"  # the metadata that names a checkpoint's delta channels


def _make_async(method: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return the async twin of a method that changes something: it is done in a thread, and to its end."""

    @wraps(method)
    async def twin(self: "JiyiSaver", *args: Any, **kwargs: Any) -> Any:
        return await finish(asyncio.to_thread(getattr(self, method.__name__), *args, **kwargs))

    return twin


class JiyiSaver(BaseCheckpointSaver[str]):
    """A checkpointer in a memory; each method's async twin does the same in a thread.

    - A checkpoint is there with all its values or not at all, whatever is killed.
    - A thread's bytes grow by what is new: values are kept once, lists and dicts by their parts.
    - Data is read strictly: an object of a class that LangGraph does not know comes back as its plain
      data, and nothing is imported, unless ``allow`` names the class.
    - Threads of two users never meet, also where they are named alike.

    Args:
        memory: where threads are kept; it stays open.
        user_id: whose they are, where a configuration does not say; by default whom the memory was opened
            for. The calls that take no configuration are about this user's threads; see `for_user`.
        user_of: says whose, by a configuration; else its ``configurable["user_id"]`` does.
        serde: serializes values, in place of the strict one.
        allow: classes, or (module, name), that values may be made of besides LangGraph's and LangChain's.
    """

    def __init__(
        self,
        memory: MemoryManager,
        *,
        user_id: str | None = None,
        user_of: UserOf | None = None,
        serde: SerializerProtocol | None = None,
        allow: Collection[type | tuple[str, ...]] = (),
    ) -> None:
        if serde is not None and allow:
            raise InputError("a serde has its own list of allowed classes; leave allow out")
        if isinstance(allow, str) or not all(isinstance(one, type | tuple) for one in allow):
            raise InputError("allow= is a list of classes, or of (module, name): allow=[Plan]")
        strict = JsonPlusSerializer(allowed_msgpack_modules=None).with_msgpack_allowlist(allow)
        super().__init__(serde=serde or strict)
        self._threads = Threads(memory)
        self._user_id = user_id
        self._user_of = user_of

    def for_user(self, user_id: str) -> "JiyiSaver":
        """Return a saver of one user's threads, whatever a configuration says."""
        saver = copy(self)
        saver._user_id, saver._user_of = user_id, lambda _: user_id
        return saver

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint: the one that is named, or else the newest; None where there is none."""
        place = self._place(config)
        item = self._threads.checkpoint(place)
        return None if item is None else self._tuple(place, item)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, greatest id first.

        ``config`` names a thread, a namespace and an id; None: all threads of the user. ``filter`` has fields
        of the metadata that must be equal, dots lead into nested ones; ``before``: only lower ids.
        """
        place = self._place(config) if config else Place(self._user_id, "")
        if config and "checkpoint_ns" not in config["configurable"]:
            place = replace(place, ns=None)
        below = get_checkpoint_id(before) if before else None
        found = self._threads.checkpoints(place) if config else self._threads.of_user(place.user)
        chosen = (
            item
            for item in found
            if (not below or item.key < below) and (not filter or matches(self._metadata(item), filter))
        )
        for item in islice(chosen, limit):
            yield self._tuple(Place(place.user, item.namespace[2]), item)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002
    ) -> RunnableConfig:
        """Save a checkpoint, in one transaction, and return the configuration that leads to it."""
        parent = self._place(config)
        packer = Packer(self.serde, self._threads.known(parent)[1])
        body = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        row = {
            "parent": parent.id,
            "checkpoint": encoded(self.serde.dumps_typed(body)),
            "metadata": encoded(self.serde.dumps_typed(get_checkpoint_metadata(config, metadata))),
            "channels": {name: packer.pack(value) for name, value in checkpoint["channel_values"].items()},
        }
        place = replace(parent, id=checkpoint["id"])
        self._threads.put(place, row, packer)
        return _config(place, place.id)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote after a checkpoint, all or none.

        A write that is there stays as it is; errors, interrupts and the like take the place of former ones.
        """
        place = self._place(config)
        numbers = [WRITES_IDX_MAP.get(channel, at) for at, (channel, _) in enumerate(writes)]
        keys = [f"{task_id}/{number}" for number in numbers]
        checkpoint, known = self._threads.known(place)
        there = self._threads.written(place, keys)
        packer = Packer(self.serde, known)
        rows = dict[str, Row]()
        for key, number, (channel, value) in zip(keys, numbers, writes, strict=True):
            if number < 0 or key not in there:
                task = {"task": task_id, "path": task_path, "number": number}
                rows[key] = {**task, "channel": channel, "value": packer.pack(value)}
        self._threads.put_writes(place, rows, packer, checkpoint)

    def delete_thread(self, thread_id: str) -> None:
        """Forget a conversation: its checkpoints, its messages, and all that was derived from them.

        As ``memory.forget(session_id=...)``, whose receipt `restore` takes. `prune` deletes checkpoints only.
        """
        self._threads.forget(self._thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that runs made, in all threads of the user, for good."""
        runs = set(run_ids)
        gone = dict[str, list[Item]]()
        for item in self._threads.of_user(self._user_id) if runs else ():
            if self._metadata(item).get("run_id") in runs:
                gone.setdefault(item.namespace[2], []).append(item)
        for thread, items in gone.items():
            self._threads.drop(self._thread(thread), items)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history; what the target has besides stays."""
        if str(source_thread_id) != str(target_thread_id):
            self._threads.copy(self._thread(source_thread_id), self._thread(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete checkpoints for good, with the values that nothing needs any more.

        The strategy "keep_latest" keeps of each namespace the newest checkpoint, and the former ones that
        its delta channels are rebuilt from; "delete" keeps none.

        Raises:
            InputError: there is no such strategy.
        """
        if strategy not in ("keep_latest", "delete"):
            raise InputError(f"strategy={strategy!r} is neither keep_latest nor delete")
        for place in map(self._thread, thread_ids):
            if strategy == "delete":
                self._threads.delete(place)
            else:
                items = list(self._threads.checkpoints(place))
                self._threads.drop(
                    place, superseded(items, lambda item: self._metadata(item).get(_DELTA_CHANNELS, ()))
                )

    def get_next_version(self, current: str | int | None, channel: None) -> str:  # noqa: ARG002
        """Return a greater version; those of two branches differ."""
        number = 0 if current is None else int(str(current).partition(".")[0])
        return f"{number + 1:032}.{random.random():016}"

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `get_tuple`."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `list`."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await asyncio.to_thread(next, found, None)) is not None:
            yield one

    aput = _make_async(put)
    aput_writes = _make_async(put_writes)
    adelete_thread = _make_async(delete_thread)
    adelete_for_runs = _make_async(delete_for_runs)
    acopy_thread = _make_async(copy_thread)
    aprune = _make_async(prune)

    def _place(self, config: RunnableConfig) -> Place:
        named = config["configurable"]
        user = (self._user_of(config) if self._user_of else None) or named.get("user_id") or self._user_id
        place = Place(None if user is None else str(user), str(named["thread_id"]))
        return replace(place, ns=named.get("checkpoint_ns") or "", id=get_checkpoint_id(config) or None)

    def _thread(self, thread_id: str) -> Place:
        return Place(self._user_id, str(thread_id))

    def _metadata(self, item: Item) -> CheckpointMetadata:
        return self.serde.loads_typed(decoded(item.value["metadata"]))

    def _tuple(self, thread: Place, item: Item) -> CheckpointTuple:
        place = replace(thread, ns=item.namespace[3][1:], id=item.key)
        writes = [item.value for item in self._threads.writes(place)]
        writes.sort(key=lambda w: writes_sort_key(w["path"], w["task"], w["number"]))
        channels = item.value["channels"]
        packed = [*channels.values(), *(write["value"] for write in writes)]
        values = unpacked(packed, self.serde, self._threads.reader(place))
        body = self.serde.loads_typed(decoded(item.value["checkpoint"]))
        written = zip(writes, values[len(channels) :], strict=True)
        return CheckpointTuple(
            config=_config(place, item.key),
            checkpoint={**body, "channel_values": dict(zip(channels, values, strict=False))},
            metadata=self._metadata(item),
            parent_config=_config(place, item.value["parent"]) if item.value["parent"] else None,
            pending_writes=[(write["task"], write["channel"], value) for write, value in written],
        )


def _config(place: Place, id: str | None) -> RunnableConfig:
    """Return the configuration that leads to a checkpoint of the same user."""
    user = {} if place.user is None else {"user_id": place.user}
    here = {"thread_id": place.thread, "checkpoint_ns": place.ns, "checkpoint_id": id}
    return {"configurable": {**here, **user}}
