"""Reads what a /rerank endpoint answered, believing nothing."""

import json
from math import isfinite
from typing import Any

__all__ = ["read_scores"]


def read_scores(body: bytes, count: int) -> list[float]:
    """Return the `count` scores of an answer in the order of the texts.

    Understood are ``{"results": [{"index": 0, "relevance_score": 0.9}, ...]}`` (Jina,
    Cohere, SiliconFlow, vLLM, llama.cpp), the same under "data" (Voyage), and a bare list
    of ``{"index": 0, "score": 0.9}`` (Text Embeddings Inference).

    Raises:
        ValueError: it is not such an answer; the message says what is wrong, quoting nothing.
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    items = answer.get("results", answer.get("data")) if isinstance(answer, dict) else answer
    if not isinstance(items, list):
        raise ValueError("it has no list under 'results'")
    if len(items) != count:
        raise ValueError(f"{count} texts were sent, {len(items)} scores came back")
    scores: dict[int, float] = {}
    for place, item in enumerate(items):
        index = item.get("index") if isinstance(item, dict) else None
        if type(index) is not int or not 0 <= index < count or index in scores:
            raise ValueError(f"item {place} has a wrong or repeated index")
        scores[index] = _score(item.get("relevance_score", item.get("score")), index)
    return [scores[index] for index in range(count)]


def _score(value: Any, index: int) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"the score of text {index} is no number but {type(value).__name__}")
    try:
        score = float(value)
    except OverflowError:
        score = float("inf")
    if not isfinite(score):
        raise ValueError(f"the score of text {index} is not finite")
    return score
