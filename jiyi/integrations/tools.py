"""What a model may do with a memory by itself: remember, recall, forget."""

from collections.abc import Mapping, Sequence
from typing import Any

from jiyi.errors import JiyiError
from jiyi.integrations.recalling import Owner

__all__ = ["TOOL_DESCRIPTIONS", "describe_function", "forget", "recall", "remember"]

TOOL_DESCRIPTIONS = {
    "remember": "Keep something for later conversations. Write full sentences that are understood alone.",
    "recall": "Search earlier conversations and what was kept. What is found begins with its id in brackets.",
    "forget": "Forget what recall found, by its ids, where the user asks for it.",
}
"""What a model is told about each tool."""


def remember(owner: Owner, text: str) -> str:
    """Keep a text for later conversations; like the others, return the text for the model."""
    try:
        learned = owner.memory.remember(text, session_id=owner.session_id, user_id=owner.user_id)
    except JiyiError as error:
        return f"Error: {error}"
    return f"Kept as [{learned.kept}]."


def recall(owner: Owner, query: str, limit: int = 5) -> str:
    """Search; return a line for each hit, with its id and its date."""
    try:
        hits = owner.memory.search(query, limit=limit, user_id=owner.user_id)
    except JiyiError as error:
        return f"Error: {error}"
    lines = [
        f"[{hit.id}] {f'{hit.created_at:%Y-%m-%d}: ' if hit.created_at else ''}{hit.wordings[0]}"
        for hit in hits
    ]
    if hits.doubtful or not lines:
        lines.insert(0, "The memory may hold nothing about this.")
    return "\n".join(lines)


def forget(owner: Owner, ids: Sequence[str]) -> str:
    """Forget hits of `recall` and all derived from them; `MemoryManager.restore` brings them back."""
    try:
        receipt = owner.memory.forget(ids=list(ids), user_id=owner.user_id, reason="asked by the model")
    except JiyiError as error:
        return f"Error: {error}"
    return f"Forgotten: {receipt.total}."


def describe_function(name: str, description: str | None, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool, or the schema of an output, in the form of Chat Completions."""
    body = {"name": name, "description": description or "", "parameters": dict(schema)}
    return {"type": "function", "function": body}
