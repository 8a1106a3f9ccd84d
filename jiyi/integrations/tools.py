"""What a model may do with a memory by itself: remember, recall, forget."""

from collections.abc import Mapping, Sequence
from typing import Any

from jiyi.errors import JiyiError
from jiyi.integrations.recalling import Owner

__all__ = ["TOLD", "forget", "function", "recall", "remember"]

TOLD = {
    "remember": "Keep something for later conversations. Write full sentences that are understood alone.",
    "recall": "Search earlier conversations and what was kept. What is found begins with its id in brackets.",
    "forget": "Forget what recall found, by its ids, where the user asks for it.",
}
"""What a model is told of each."""


def remember(owner: Owner, text: str) -> str:
    """Keep a text for later conversations; return what the model is told, as the others do."""
    try:
        learned = owner.memory.remember(text, session_id=owner.session_id, user_id=owner.user_id)
    except JiyiError as error:
        return f"Error: {error}"
    return f"Kept as [{learned.kept}]."


def recall(owner: Owner, query: str, limit: int = 5) -> str:
    """Search; each hit with its id and its date."""
    try:
        found = owner.memory.search(query, limit=limit, user_id=owner.user_id)
    except JiyiError as error:
        return f"Error: {error}"
    lines = [
        f"[{hit.id}] {f'{hit.created_at:%Y-%m-%d}: ' if hit.created_at else ''}{hit.wordings[0]}"
        for hit in found
    ]
    if found.doubtful or not lines:
        lines.insert(0, "The memory may hold nothing about this.")
    return "\n".join(lines)


def forget(owner: Owner, ids: Sequence[str]) -> str:
    """Forget what `recall` found, with all that came of it; `MemoryManager.restore` brings it back."""
    try:
        receipt = owner.memory.forget(ids=list(ids), user_id=owner.user_id, reason="asked by the model")
    except JiyiError as error:
        return f"Error: {error}"
    return f"Forgotten: {receipt.total}."


def function(name: str, told: str | None, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool, or the schema of an output, as Chat Completions write it."""
    body = {"name": name, "description": told or "", "parameters": dict(schema)}
    return {"type": "function", "function": body}
