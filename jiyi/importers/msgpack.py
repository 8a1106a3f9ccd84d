"""MessagePack, read as data: what stands for an object of Python stays its arguments, nothing is called.

The format: https://github.com/msgpack/msgpack/blob/master/spec.md. LangGraph writes objects as extension
types whose data is ``[module, name, arguments, method]`` again.
"""

import struct
from typing import Any

__all__ = ["unpacked"]

_DEEPEST = 100
_NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"} | {
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"
}  # fmt: skip
_SIZES = {1: ">B", 2: ">H", 4: ">I"}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4}  # by first byte, how many bytes say the length
_TEXTS = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_LISTS = {0xDC: 2, 0xDD: 4}
_DICTS = {0xDE: 2, 0xDF: 4}
_EXTENSIONS = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_FIXED = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_ARGUMENTS = range(6)  # extension types with a module, a name and arguments


def unpacked(data: bytes) -> Any:
    """Return the value that data stands for.

    Raises:
        ValueError: it is cut off, nested deeper than 100 levels, or no MessagePack.
    """
    try:
        return _Reader(data).value(0)
    except (IndexError, struct.error) as error:
        raise ValueError("cut off") from error


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError(f"nested deeper than {_DEEPEST} levels")
        first = self._take(1)[0]
        if first < 0x80 or first >= 0xE0:
            return first if first < 0x80 else first - 0x100
        if first < 0x90:
            return self._dict(first & 0x0F, depth)
        if first < 0xA0:
            return [self.value(depth + 1) for _ in range(first & 0x0F)]
        if first < 0xC0:
            return self._take(first & 0x1F).decode("utf-8", "replace")
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        if first in _NUMBERS:
            return self._number(_NUMBERS[first])
        if first in _BYTES:
            return self._take(self._size(_BYTES[first]))
        if first in _TEXTS:
            return self._take(self._size(_TEXTS[first])).decode("utf-8", "replace")
        if first in _LISTS:
            return [self.value(depth + 1) for _ in range(self._size(_LISTS[first]))]
        if first in _DICTS:
            return self._dict(self._size(_DICTS[first]), depth)
        if first in _FIXED or first in _EXTENSIONS:
            size = _FIXED.get(first) or self._size(_EXTENSIONS[first])
            return self._extension(self._take(1)[0], self._take(size), depth)
        raise ValueError(f"no MessagePack: byte {first:#x}")

    def _take(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        if len(piece) < size:
            raise ValueError("cut off")
        self._at += size
        return piece

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _size(self, width: int) -> int:
        return int(self._number(_SIZES[width]))

    def _dict(self, size: int, depth: int) -> dict[str, Any]:
        out = dict[str, Any]()
        for _ in range(size):
            key = self.value(depth + 1)
            out[key if isinstance(key, str) else repr(key)] = self.value(depth + 1)
        return out

    def _extension(self, code: int, data: bytes, depth: int) -> Any:
        if code not in _ARGUMENTS:
            return None
        inner = _Reader(data).value(depth + 1)
        return inner[2] if isinstance(inner, list) and len(inner) > 2 else None
