"""What a model may do with a memory by itself: remember, recall, forget."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from jiyi.errors import JiyiError
from jiyi.integrations.recalling import Owner

_MAX_HITS = 5  # of a recall


def build_tools(find_owner: Callable[[Any], Owner], runtime_type: type) -> list[Callable[..., str]]:
    """Return the tools; names, arguments and docstrings are for the model, errors are answers.

    A framework gives the first argument, annotated with its ``runtime_type``; ``find_owner`` gets it.
    """

    def remember(runtime: Any, text: str) -> str:
        """Keep something for later conversations. Write full sentences that are understood alone."""
        owner = find_owner(runtime)
        learned = owner.memory.remember(text, session_id=owner.session_id, user_id=owner.user_id)
        return f"Kept as [{learned.kept}]."

    def recall(runtime: Any, query: str) -> str:
        """Search earlier conversations and what was kept. What is found begins with its id in brackets."""
        owner = find_owner(runtime)
        hits = owner.memory.search(query, limit=_MAX_HITS, user_id=owner.user_id)
        dates = [f"{hit.created_at:%Y-%m-%d}: " if hit.created_at else "" for hit in hits]
        lines = [f"[{hit.id}] {date}{hit.wordings[0]}" for hit, date in zip(hits, dates, strict=True)]
        if hits.doubtful or not lines:
            lines.insert(0, "The memory may hold nothing about this.")
        return "\n".join(lines)

    def forget(runtime: Any, ids: list[str]) -> str:
        """Forget what recall found, by its ids, where the user asks for it."""
        owner = find_owner(runtime)
        receipt = owner.memory.forget(ids=ids, user_id=owner.user_id, reason="asked by the model")
        return f"Forgotten: {receipt.total}."

    return [_answer_errors(tool, runtime_type) for tool in (remember, recall, forget)]


def _answer_errors(tool: Callable[..., str], runtime_type: type) -> Callable[..., str]:
    tool.__annotations__["runtime"] = runtime_type

    @wraps(tool)
    def run(*args: Any, **kwargs: Any) -> str:
        try:
            return tool(*args, **kwargs)
        except JiyiError as error:
            return f"Error: {error}"

    return run


def describe_function(name: str, description: str | None, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool, or the schema of an output, in the form of Chat Completions."""
    body = {"name": name, "description": description or "", "parameters": dict(schema)}
    return {"type": "function", "function": body}
