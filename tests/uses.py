"""What is done with a memory: calls of the verbs, for tests of a memory that can do none."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jiyi


def uses(memory: jiyi.MemoryManager, file: Path) -> list[Callable[[], Any]]:
    of_a_text = [memory.search, memory.remember, memory.history, memory.neighbours, memory.restore]
    plain = [memory.stats, memory.facts, memory.episodes, memory.knowledge, memory.maintain]
    return [
        *(partial(verb, "x") for verb in (*of_a_text, memory.pin, memory.unpin)),
        *(partial(verb, "s") for verb in (memory.recent_messages, memory.learn_facts)),
        *(*plain, memory.run_forget_gate, memory.run_consolidation),
        partial(memory.save_message, "s", role="user", content="x"),
        partial(memory.build_context, "s", "x"),
        partial(memory.forget, everything=True),
        partial(memory.export, file),
    ]
