"""LangGraph: a checkpointer that keeps threads in a memory, each value of a channel once.

Checkpoints, their writes and the values they need are items below the label ``langgraph``; no search finds
them. They belong to the conversation that is named like the thread.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import islice
from typing import Any

from jiyi.errors import InputError
from jiyi.integrations.common import get_by_path, make_async, require_framework
from jiyi.integrations.langgraph_threads import Place, Threads, find_superseded
from jiyi.integrations.langgraph_values import decode, encode
from jiyi.manager import MemoryManager
from jiyi.records import Item
from jiyi.storage.database import grouped

with require_framework("LangGraph", "langgraph"):
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint import base
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

UserOf = Callable[[RunnableConfig], str | None]
"""Says whose thread it is, by the configuration of a run."""

_DELTA_CHANNELS = "counters_since_delta_snapshot"  # the metadata that names a checkpoint's delta channels


class JiyiSaver(base.BaseCheckpointSaver[str]):
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
        if isinstance(allow, str) or not all(isinstance(entry, type | tuple) for entry in allow):
            raise InputError("allow= is a list of classes, or of (module, name): allow=[Plan]")
        strict = JsonPlusSerializer(allowed_msgpack_modules=None).with_msgpack_allowlist(allow)
        super().__init__(serde=serde or strict)
        self._threads = Threads(memory, self.serde)
        self._user_id = user_id
        self._user_of = user_of

    def for_user(self, user_id: str) -> "JiyiSaver":
        """Return a saver of one user's threads, whatever a configuration says."""
        saver = copy(self)
        saver._user_id, saver._user_of = user_id, lambda _: user_id
        return saver

    def get_tuple(self, config: RunnableConfig) -> base.CheckpointTuple | None:
        """Return a checkpoint: the one that is named, or else the newest; None where there is none."""
        place = self._find_place(config)
        item = next(self._threads.list_checkpoints(place), None)
        return None if item is None else self._build_tuple(place.user, item)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[base.CheckpointTuple]:
        """Yield checkpoints, greatest id first.

        ``config`` names a thread, a namespace and an id; None: all threads of the user. ``filter`` has fields
        of the metadata that must be equal, dots lead into nested ones; ``before``: only lower ids.
        """
        items: Iterable[Item] = ()
        if not config:
            user, items = self._user_id, self._threads.list_all_checkpoints(self._user_id)
        else:
            place = self._find_place(config)
            if "checkpoint_ns" not in config["configurable"]:
                place = replace(place, ns=None)
            user, items = place.user, self._threads.list_checkpoints(place)
        end = base.get_checkpoint_id(before) if before else None
        lower = (item for item in items if not end or item.key < end)
        chosen = (i for i in lower if not filter or _has_fields(self._metadata_of(i), filter))
        for item in islice(chosen, limit):
            yield self._build_tuple(user, item)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: base.Checkpoint,
        metadata: base.CheckpointMetadata,
        new_versions: base.ChannelVersions,  # noqa: ARG002
    ) -> RunnableConfig:
        """Save a checkpoint, in one transaction, and return the configuration that leads to it."""
        parent = self._find_place(config)
        place = replace(parent, id=checkpoint["id"])
        body = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        row = {
            "parent": parent.id,
            "checkpoint": encode(self.serde.dumps_typed(body)),
            "metadata": encode(self.serde.dumps_typed(base.get_checkpoint_metadata(config, metadata))),
        }
        self._threads.put(parent, place, row, checkpoint["channel_values"])
        return _build_config(place, place.id)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote after a checkpoint, all or none.

        A write that is there stays as it is; errors, interrupts and the like take the place of former ones.
        """
        rows = {}
        for index, (channel, value) in enumerate(writes):
            number = base.WRITES_IDX_MAP.get(channel, index)
            task = {"task": task_id, "path": task_path, "number": number}
            rows[f"{task_id}/{number}"] = {**task, "channel": channel, "value": value}
        lasting = [key for key, row in rows.items() if row["number"] >= 0]
        self._threads.put_writes(self._find_place(config), rows, lasting)

    def delete_thread(self, thread_id: str) -> None:
        """Forget a conversation: its checkpoints, its messages, and all that was derived from them.

        As ``memory.forget(session_id=...)``, whose receipt `restore` takes. `prune` deletes checkpoints only.
        """
        self._threads.forget(self._thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that runs made, in all threads of the user, for good."""
        runs = set(run_ids)
        found = self._threads.list_all_checkpoints(self._user_id) if runs else ()
        made = (item for item in found if self._metadata_of(item).get("run_id") in runs)
        for thread, items in grouped((item.namespace[2], item) for item in made).items():
            self._threads.delete_checkpoints(self._thread(thread), items)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history; what the target has besides stays."""
        if str(source_thread_id) != str(target_thread_id):
            self._threads.copy(self._thread(source_thread_id), self._thread(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete checkpoints for good, with the values that nothing needs any more.

        The strategy "keep_latest" keeps of each namespace the newest checkpoint, and the former ones that
        its delta channels are rebuilt from; "delete" keeps none; any other raises `InputError`.
        """
        if strategy not in ("keep_latest", "delete"):
            raise InputError(f"strategy={strategy!r} is neither keep_latest nor delete")
        for place in map(self._thread, thread_ids):
            if strategy == "delete":
                self._threads.delete(place)
            else:
                items = [*self._threads.list_checkpoints(place)]
                deltas = {item.id: self._metadata_of(item).get(_DELTA_CHANNELS, ()) for item in items}
                self._threads.delete_checkpoints(place, find_superseded(items, deltas))

    def get_next_version(self, current: str | int | None, channel: None) -> str:  # noqa: ARG002
        """Return a greater version; those of two branches differ."""
        number = 0 if current is None else int(str(current).partition(".")[0])
        return f"{number + 1:032}.{random.random():016}"

    async def alist(
        self, config: RunnableConfig | None, **options: Any
    ) -> AsyncIterator[base.CheckpointTuple]:
        """See `list`."""
        checkpoints = self.list(config, **options)
        while (checkpoint := await asyncio.to_thread(next, checkpoints, None)) is not None:
            yield checkpoint

    aget_tuple = make_async(get_tuple)
    aput = make_async(put)
    aput_writes = make_async(put_writes)
    adelete_thread = make_async(delete_thread)
    adelete_for_runs = make_async(delete_for_runs)
    acopy_thread = make_async(copy_thread)
    aprune = make_async(prune)

    def _find_place(self, config: RunnableConfig) -> Place:
        fields = config["configurable"]
        user = (self._user_of(config) if self._user_of else None) or fields.get("user_id") or self._user_id
        place = Place(None if user is None else str(user), str(fields["thread_id"]))
        return replace(place, ns=fields.get("checkpoint_ns") or "", id=base.get_checkpoint_id(config) or None)

    def _thread(self, thread_id: str) -> Place:
        return Place(self._user_id, str(thread_id))

    def _metadata_of(self, item: Item) -> base.CheckpointMetadata:
        return self.serde.loads_typed(decode(item.value["metadata"]))

    def _build_tuple(self, user: str | None, item: Item) -> base.CheckpointTuple:
        place = Place.of_checkpoint(user, item)
        writes = [write.value for write in self._threads.list_writes(place)]
        writes.sort(key=lambda write: base.writes_sort_key(write["path"], write["task"], write["number"]))
        channels = item.value["channels"]
        values = self._threads.unpack(place, [*channels.values(), *(write["value"] for write in writes)])
        body = self.serde.loads_typed(decode(item.value["checkpoint"]))
        written = zip(writes, values[len(channels) :], strict=True)
        return base.CheckpointTuple(
            config=_build_config(place, item.key),
            checkpoint={**body, "channel_values": dict(zip(channels, values, strict=False))},
            metadata=self._metadata_of(item),
            parent_config=_build_config(place, item.value["parent"]) if item.value["parent"] else None,
            pending_writes=[(write["task"], write["channel"], value) for write, value in written],
        )


def _has_fields(metadata: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    """Say whether metadata has these fields; dots lead into nested ones."""
    return all(
        (metadata[name] if name in metadata else get_by_path(metadata, name)) == value
        for name, value in fields.items()
    )


def _build_config(place: Place, id: str | None) -> RunnableConfig:
    """Return the configuration that leads to a checkpoint of the same user."""
    user = {} if place.user is None else {"user_id": place.user}
    thread = {"thread_id": place.thread, "checkpoint_ns": place.ns, "checkpoint_id": id}
    return {"configurable": {**thread, **user}}
