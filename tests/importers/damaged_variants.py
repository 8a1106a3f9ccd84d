"""Damaged files: cut, bytes flipped, keys removed, types changed, nested deep, nulls; by a seed."""

import json
from copy import deepcopy
from random import Random
from typing import Any

_VALUES = (None, 7, 1e308, "", "\ud800x\0", [], {}, True, [[[]]], -1)
DAMAGES = 20


def damaged(sample: bytes, seed: int) -> bytes:
    """Return a damaged copy: every second one of JSON is sound JSON of another shape.

    Of `DAMAGES` seeds each damages more than the one before.
    """
    chance, strength = Random(seed), seed % DAMAGES
    if seed % 2 and (lines := _read(sample)):
        for _ in range(1 + strength // 4):
            _change(chance, lines[chance.randrange(len(lines))])
        return b"\n".join(json.dumps(line).encode() for line in lines)
    if seed % 4 == 0:
        return sample[: chance.randrange(len(sample))]
    data = bytearray(sample)
    for _ in range(1 + strength):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def _read(sample: bytes) -> list[Any] | None:
    try:
        return [json.loads(sample)]
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in sample.splitlines() if line.strip()]
    except ValueError:
        return None


def _change(chance: Random, value: Any) -> None:
    """Change one thing, at a depth that chance decides."""
    while isinstance(value, dict | list) and value:
        key = chance.choice(list(value)) if isinstance(value, dict) else chance.randrange(len(value))
        if isinstance(value[key], dict | list) and value[key] and chance.random() < 0.8:
            value = value[key]
            continue
        what = chance.randrange(4)
        if what == 0 and isinstance(value, dict):
            del value[key]
        elif what == 1:
            for _ in range(150):
                value[key] = [value[key]]
        else:
            value[key] = deepcopy(chance.choice(_VALUES))
        return
