"""The same verbs for asyncio programs."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import tzinfo
from functools import cache, partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from jiyi.manager import MemoryManager
from jiyi.monitor import ContextMonitor
from jiyi.text import TokenCounter
from jiyi.verbs.base import Parts

__all__ = ["AsyncMemoryManager"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_MOST = 32  # verbs that run at once; others wait their turn


@cache
def _threads(_process: int) -> ThreadPoolExecutor:
    """Return the threads of this process: asyncio's own are few, and it looks up hosts' names in them."""
    return ThreadPoolExecutor(_MOST, thread_name_prefix="jiyi-async")


def _awaited(
    method: Callable[Concatenate[Any, _P], _R],
) -> Callable[Concatenate["AsyncMemoryManager", _P], Coroutine[Any, Any, _R]]:
    """Return a verb to be awaited: type checkers see the arguments and the result of the method."""

    @wraps(method)
    async def verb(self: "AsyncMemoryManager", /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        here: Callable[..., _R] = getattr(self._memory, method.__name__)
        call = partial(copy_context().run, here, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(_threads(os.getpid()), call)

    verb.__qualname__ = f"AsyncMemoryManager.{method.__name__}"
    return verb


class AsyncMemoryManager:
    """The same verbs as coroutines: each runs its `MemoryManager` method in a worker thread.

    ``await memory.save_message(...)``; ``async with`` closes it. Properties, such as
    ``memory.monitor``, are properties here too and not awaited. A call cancelled while it waits for a
    thread does nothing; one that has started runs to its end, so a write is done completely or not at all.
    """

    def __init__(self, memory: MemoryManager) -> None:
        self._memory = memory

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def monitor(self) -> ContextMonitor | None:
        """Figures about windows and replies; None if the setting ``monitor`` is off.

        Sessions are named by the ids given to the verbs; the user is the one given to `jiyi.open`.
        """
        return self._memory.monitor

    @property
    def parts(self) -> Parts:
        """The components of the memory, for servers and adapters."""
        return self._memory.parts

    @property
    def zone(self) -> tzinfo:
        """The time zone of dates shown."""
        return self._memory.zone

    @property
    def counter(self) -> TokenCounter:
        """Counts tokens as windows are counted."""
        return self._memory.counter

    save_message = _awaited(MemoryManager.save_message)
    save_messages = _awaited(MemoryManager.save_messages)
    pop_message = _awaited(MemoryManager.pop_message)
    pop_messages = _awaited(MemoryManager.pop_messages)
    replace_messages = _awaited(MemoryManager.replace_messages)
    recent_messages = _awaited(MemoryManager.recent_messages)
    session_messages = _awaited(MemoryManager.session_messages)
    sessions = _awaited(MemoryManager.sessions)
    import_ = _awaited(MemoryManager.import_)
    start_task = _awaited(MemoryManager.start_task)
    update_task = _awaited(MemoryManager.update_task)
    add_step = _awaited(MemoryManager.add_step)
    update_step = _awaited(MemoryManager.update_step)
    complete_task = _awaited(MemoryManager.complete_task)
    fail_task = _awaited(MemoryManager.fail_task)
    current_task = _awaited(MemoryManager.current_task)
    tasks = _awaited(MemoryManager.tasks)
    search = _awaited(MemoryManager.search)
    search_episodes = _awaited(MemoryManager.search_episodes)
    search_knowledge = _awaited(MemoryManager.search_knowledge)
    episodes = _awaited(MemoryManager.episodes)
    knowledge = _awaited(MemoryManager.knowledge)
    get = _awaited(MemoryManager.get)
    build_context = _awaited(MemoryManager.build_context)
    summarize_session = _awaited(MemoryManager.summarize_session)
    summary = _awaited(MemoryManager.summary)
    open_output = _awaited(MemoryManager.open_output)
    session_health = _awaited(MemoryManager.session_health)
    session_advice = _awaited(MemoryManager.session_advice)
    handover = _awaited(MemoryManager.handover)
    skills = _awaited(MemoryManager.skills)
    opened_skills = _awaited(MemoryManager.opened_skills)
    open_skill = _awaited(MemoryManager.open_skill)
    close_skill = _awaited(MemoryManager.close_skill)
    remember = _awaited(MemoryManager.remember)
    profile = _awaited(MemoryManager.profile)
    learn_facts = _awaited(MemoryManager.learn_facts)
    facts = _awaited(MemoryManager.facts)
    history = _awaited(MemoryManager.history)
    neighbours = _awaited(MemoryManager.neighbours)
    put_item = _awaited(MemoryManager.put_item)
    put_items = _awaited(MemoryManager.put_items)
    get_item = _awaited(MemoryManager.get_item)
    get_items = _awaited(MemoryManager.get_items)
    items = _awaited(MemoryManager.items)
    namespaces = _awaited(MemoryManager.namespaces)
    item_history = _awaited(MemoryManager.item_history)
    run_forget_gate = _awaited(MemoryManager.run_forget_gate)
    run_consolidation = _awaited(MemoryManager.run_consolidation)
    maintain = _awaited(MemoryManager.maintain)
    forget = _awaited(MemoryManager.forget)
    restore = _awaited(MemoryManager.restore)
    update = _awaited(MemoryManager.update)
    pin = _awaited(MemoryManager.pin)
    unpin = _awaited(MemoryManager.unpin)
    export = _awaited(MemoryManager.export)
    stats = _awaited(MemoryManager.stats)
    reading = _awaited(MemoryManager.reading)
    flush = _awaited(MemoryManager.flush)
    reembed = _awaited(MemoryManager.reembed)
    close = _awaited(MemoryManager.close)
