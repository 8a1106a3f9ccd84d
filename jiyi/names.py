"""Names that readers of tutorials look for in `jiyi`, and what to use; read only when one is missing."""

import sys
from importlib.util import find_spec

__all__ = ["USE", "missing"]

USE = {
    "BaseMemory": "jiyi.open(path) for a memory; a policy of your own is any jiyi.short_term.Policy",
    "Cleanup": "memory.maintain(), once a day",
    "Consolidator": "memory.run_consolidation(); the class is jiyi.long_term.Consolidation",
    "ContextManager": "memory.build_context(session_id, query)",
    "ContextMonitor": "memory.monitor, with the setting monitor; the class is jiyi.monitor.ContextMonitor",
    "CoreAgent": "jiyi.Agent",
    "DynamicContextManager": "memory.build_context(session_id, query, task_type=...)",
    "EmbeddingService": "jiyi.embeddings.E5Embedder, the default, or jiyi.embeddings.OpenAIEmbedder",
    "ForgetGate": "memory.run_forget_gate(), with jiyi.ForgetRule; the class is jiyi.long_term.ForgetGate",
    "HashEmbedder": "jiyi.testing.HashEmbedder",
    "HybridMemory": "memory.build_context(session_id, query), of a memory made by jiyi.open(path)",
    "ImportanceSamplingMemory": "jiyi.ImportanceSampling",
    "LongTermMemory": "jiyi.open(path) and memory.search(query); the class is jiyi.long_term.LongTermMemory",
    "LongTermStore": "jiyi.open(path); the protocol of a store is jiyi.storage.Store",
    "ManualClock": "jiyi.testing.ManualClock",
    "Memory": "jiyi.open(path), which returns a jiyi.MemoryManager",
    "PriorityContextManager": "jiyi.context.PriorityContext",
    "ShortTermMemory": "memory.recent_messages(session_id); the class is jiyi.short_term.ShortTermMemory",
    "SlidingWindowMemory": "jiyi.SlidingWindow",
    "SummarizationMemory": "jiyi.RunningSummary",
    "SummaryMemory": "jiyi.RunningSummary",
    "TaskState": "jiyi.Task",
    "TaskStep": "jiyi.Step",
    "TokenBudgetMemory": "jiyi.TokenBudget",
    "TokenTruncationMemory": "jiyi.TokenBudget",
    "VectorMemory": "memory.search(query), of a memory made by jiyi.open(path)",
    "WorkingMemory": "memory.start_task(session_id, request); the class is jiyi.working.WorkingMemory",
}
"""What to use in place of a name."""


def missing(name: str) -> AttributeError | ImportError:
    """Return the error for a name that `jiyi` lacks: for one that is known, it says what to use.

    Python replaces an AttributeError of ``from jiyi import name`` by words of its own, so that statement
    gets an ImportError; for attribute access and `hasattr` it stays an AttributeError.
    """
    plain = f"module 'jiyi' has no attribute {name!r}"
    use = USE.get(name) or _place_of(name)
    if not use:
        return AttributeError(plain, name=name)
    asking = sys._getframe(2)  # behind `jiyi.__getattr__`
    if asking.f_globals.get("__name__") == "importlib._bootstrap":
        return ImportError(f"jiyi has no {name!r}; use {use}; see docs/names.md", name="jiyi")
    return AttributeError(f"{plain}; use {use}; see docs/names.md", name=name)


def _place_of(name: str) -> str:
    """Return where else in jiyi a name is, among the packages that `import jiyi` has loaded."""
    if name.startswith("_") or find_spec(f"jiyi.{name}"):  # a folder not loaded yet is none of these
        return ""
    places = [
        module
        for module, loaded in list(sys.modules.items())
        if module.startswith("jiyi.") and name in getattr(loaded, "__all__", ())
    ]
    return f"{min(places, key=lambda place: (place.count('.'), place))}.{name}" if places else ""
