"""The same verbs for asyncio programs."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import tzinfo
from functools import cache, partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from jiyi.manager import MemoryManager
from jiyi.monitor import ContextMonitor
from jiyi.text import TokenCounter
from jiyi.verbs.base import Parts

_P = ParamSpec("_P")
_R = TypeVar("_R")

_MAX_THREADS = 32  # verbs that run at once; others wait their turn


@cache
def _thread_pool(_process: int) -> ThreadPoolExecutor:
    """Return the threads of this process: asyncio's own are few, and it looks up hosts' names in them."""
    return ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="jiyi-async")


def _as_coroutine(
    method: Callable[Concatenate[Any, _P], _R],
) -> Callable[Concatenate["AsyncMemoryManager", _P], Coroutine[Any, Any, _R]]:
    """Return a verb to be awaited: type checkers see the arguments and the result of the method."""

    @wraps(method)
    async def verb(self: "AsyncMemoryManager", /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        bound: Callable[..., _R] = getattr(self._memory, method.__name__)
        call = partial(copy_context().run, bound, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(_thread_pool(os.getpid()), call)

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

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            from jiyi.names import missing_verb_error

            raise missing_verb_error(self, name)

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

    save_message = _as_coroutine(MemoryManager.save_message)
    save_messages = _as_coroutine(MemoryManager.save_messages)
    pop_message = _as_coroutine(MemoryManager.pop_message)
    pop_messages = _as_coroutine(MemoryManager.pop_messages)
    replace_messages = _as_coroutine(MemoryManager.replace_messages)
    recent_messages = _as_coroutine(MemoryManager.recent_messages)
    session_messages = _as_coroutine(MemoryManager.session_messages)
    sessions = _as_coroutine(MemoryManager.sessions)
    import_ = _as_coroutine(MemoryManager.import_)
    start_task = _as_coroutine(MemoryManager.start_task)
    update_task = _as_coroutine(MemoryManager.update_task)
    add_step = _as_coroutine(MemoryManager.add_step)
    update_step = _as_coroutine(MemoryManager.update_step)
    complete_task = _as_coroutine(MemoryManager.complete_task)
    fail_task = _as_coroutine(MemoryManager.fail_task)
    current_task = _as_coroutine(MemoryManager.current_task)
    tasks = _as_coroutine(MemoryManager.tasks)
    search = _as_coroutine(MemoryManager.search)
    search_episodes = _as_coroutine(MemoryManager.search_episodes)
    search_knowledge = _as_coroutine(MemoryManager.search_knowledge)
    episodes = _as_coroutine(MemoryManager.episodes)
    knowledge = _as_coroutine(MemoryManager.knowledge)
    get = _as_coroutine(MemoryManager.get)
    build_context = _as_coroutine(MemoryManager.build_context)
    summarize_session = _as_coroutine(MemoryManager.summarize_session)
    summary = _as_coroutine(MemoryManager.summary)
    open_output = _as_coroutine(MemoryManager.open_output)
    session_health = _as_coroutine(MemoryManager.session_health)
    session_advice = _as_coroutine(MemoryManager.session_advice)
    handover = _as_coroutine(MemoryManager.handover)
    skills = _as_coroutine(MemoryManager.skills)
    opened_skills = _as_coroutine(MemoryManager.opened_skills)
    open_skill = _as_coroutine(MemoryManager.open_skill)
    close_skill = _as_coroutine(MemoryManager.close_skill)
    remember = _as_coroutine(MemoryManager.remember)
    profile = _as_coroutine(MemoryManager.profile)
    learn_facts = _as_coroutine(MemoryManager.learn_facts)
    facts = _as_coroutine(MemoryManager.facts)
    history = _as_coroutine(MemoryManager.history)
    neighbours = _as_coroutine(MemoryManager.neighbours)
    put_item = _as_coroutine(MemoryManager.put_item)
    put_items = _as_coroutine(MemoryManager.put_items)
    get_item = _as_coroutine(MemoryManager.get_item)
    get_items = _as_coroutine(MemoryManager.get_items)
    items = _as_coroutine(MemoryManager.items)
    namespaces = _as_coroutine(MemoryManager.namespaces)
    item_history = _as_coroutine(MemoryManager.item_history)
    run_forget_gate = _as_coroutine(MemoryManager.run_forget_gate)
    run_consolidation = _as_coroutine(MemoryManager.run_consolidation)
    maintain = _as_coroutine(MemoryManager.maintain)
    forget = _as_coroutine(MemoryManager.forget)
    restore = _as_coroutine(MemoryManager.restore)
    update = _as_coroutine(MemoryManager.update)
    pin = _as_coroutine(MemoryManager.pin)
    unpin = _as_coroutine(MemoryManager.unpin)
    export = _as_coroutine(MemoryManager.export)
    stats = _as_coroutine(MemoryManager.stats)
    reading = _as_coroutine(MemoryManager.reading)
    flush = _as_coroutine(MemoryManager.flush)
    reembed = _as_coroutine(MemoryManager.reembed)
    close = _as_coroutine(MemoryManager.close)
