"""What is done with a memory: calls of the verbs, for tests of a memory that can do none."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jiyi


def uses(memory: jiyi.MemoryManager, file: Path) -> list[Callable[[], Any]]:
    return [
        lambda: memory.save_message("s", role="user", content="x"),
        lambda: memory.search("x"),
        lambda: memory.build_context("s", "x"),
        lambda: memory.recent_messages("s"),
        memory.stats,
        lambda: memory.remember("x"),
        memory.facts,
        lambda: memory.history("x"),
        lambda: memory.neighbours("x"),
        lambda: memory.learn_facts("s"),
        memory.run_forget_gate,
        memory.run_consolidation,
        memory.maintain,
        lambda: memory.forget(everything=True),
        lambda: memory.restore("x"),
        lambda: memory.pin("x"),
        lambda: memory.unpin("x"),
        lambda: memory.export(file),
        memory.episodes,
        memory.knowledge,
    ]
