"""A real local /rerank server: honest, it gives a text its length as score, best first."""

from typing import Any

from scripted_endpoint import ScriptedEndpoint


def scores(asked: dict[str, Any]) -> dict[str, Any]:
    """An honest answer, in the order of the scores."""
    found = [{"index": i, "relevance_score": float(len(text))} for i, text in enumerate(asked["documents"])]
    found.sort(key=lambda item: -item["relevance_score"])
    return {"id": "r-1", "results": found[: asked["top_n"]], "usage": {"total_tokens": 9}}


class ScriptedRerank(ScriptedEndpoint):
    """Answers as Jina, Cohere and SiliconFlow do."""

    honest = staticmethod(scores)
