"""Reads what an OpenAI-compatible /embeddings endpoint answered, believing nothing."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jiyi.embeddings.embedder import Vectors32

__all__ = ["read_vectors"]


def read_vectors(body: bytes, count: int) -> Vectors32:
    """Return the `count` vectors of an answer in the order asked, each of length 1.

    Order follows the field `index`; an item without one stands at its place in the list
    (servers that leave out zeros leave out index 0).

    Raises:
        ValueError: it is not such an answer; the message says what is wrong, quoting nothing.
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list):
        raise ValueError("it has no list under 'data'")
    if len(items) != count:
        raise ValueError(f"{count} texts were sent, {len(items)} vectors came back")
    rows: dict[int, NDArray[np.float64]] = {}
    for place, item in enumerate(items):
        index = item.get("index", place) if isinstance(item, dict) else None
        if type(index) is not int or not 0 <= index < count or index in rows:
            raise ValueError(f"item {place} has a wrong or repeated index")
        rows[index] = _row(item.get("embedding"), index)
    sizes = {len(row) for row in rows.values()}
    if len(sizes) > 1:
        raise ValueError(f"its vectors have different sizes: {sorted(sizes)}")
    return np.stack([rows[index] for index in range(count)]).astype(np.float32)


def _row(values: Any, index: int) -> NDArray[np.float64]:
    if not isinstance(values, list) or not values:
        raise ValueError(f"vector {index} is not a list of numbers but {type(values).__name__}")
    try:
        row = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"vector {index} is not a list of numbers") from None
    if row.ndim != 1 or not np.isfinite(row).all():
        raise ValueError(f"vector {index} holds something that is not a finite number")
    largest = np.abs(row).max()
    if largest == 0:
        raise ValueError(f"vector {index} is all zeros")
    row /= largest  # first, so that squaring neither overflows nor vanishes
    return row / np.linalg.norm(row)
