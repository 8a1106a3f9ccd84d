"""Cuts text into the pieces of the model's vocabulary: the likeliest sequence, by Viterbi.

Kudo 2018, "Subword Regularization", arXiv:1804.10959: each piece has a score, and the
sequence with the highest sum is taken.
"""

import re
from array import array
from bisect import bisect_left, bisect_right

import numpy as np
from numpy.typing import NDArray

from jiyi.embeddings.e5.weights import Vocabulary

_SPACE = "\u2581"  # how pieces write a space
_SPACES = re.compile("  +")
_UNKNOWN_PENALTY = np.float32(10)  # below the worst piece, for a character in no piece
_UTF8_SIZES = np.repeat(np.array([1, 2, 3, 4], np.uint8), (0xC0, 0x20, 0x10, 0x10))  # by first byte of UTF-8

_MAX_CACHED_PIECES = 120_000  # pieces cached in dictionaries: about 20 MB

_Group = tuple[dict[str, int], int]  # what follows two characters, with ids; length of the longest
_NO_GROUP: _Group = ({}, 0)


class Tokenizer:
    """Turns text into the ids of the model; safe to use from several threads.

    Pieces stay packed, sorted by their first two characters. Those with the same two become a
    dictionary when a text first has these two. Memory: 10 MB, and up to 20 for dictionaries.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.first, self.last, self._unknown = vocabulary.first, vocabulary.last, vocabulary.unknown
        self._replacements, self._text = vocabulary.replacements, vocabulary.text
        self._starts = array("I", vocabulary.starts.astype(np.uintc).tobytes())
        self._scores = array("f", vocabulary.scores.astype(np.float32).tobytes())
        self._unknown_score = float(vocabulary.scores.min() - _UNKNOWN_PENALTY)
        keys, single = _find_beginnings(vocabulary)
        self._id_of_char = {self._read_piece(number): number for number in np.flatnonzero(single).tolist()}
        longer = np.flatnonzero(~single & (np.arange(len(single)) != self._unknown))
        order = longer[np.argsort(keys[longer], kind="stable")]
        self._sorted_ids = array("I", order.astype(np.uintc).tobytes())
        self._sorted_keys = array("Q", keys[order].tobytes())
        self._groups: dict[str, _Group] = {}
        self._cached_pieces = 0  # pieces in groups

    def ids(self, text: str) -> list[int]:
        """Return the ids of `text`, which has no lone surrogates, without the marks of beginning and end."""
        text = _SPACES.sub(" ", text.translate(self._replacements))
        text = (text if text.startswith(" ") else " " + text).replace(" ", _SPACE)
        size = len(text)
        best = array("f", [-1e30]) * (size + 1)  # float32 rounds sums, which decides ties
        best[0] = 0.0
        chosen, previous = [self._unknown] * (size + 1), list(range(-1, size))
        total = array("f", [0.0])
        scores, groups, id_of_char = self._scores, self._groups, self._id_of_char
        for start in range(size):
            score = best[start]
            piece_id = id_of_char.get(text[start])
            total[0] = score + (self._unknown_score if piece_id is None else scores[piece_id])
            if total[0] > best[start + 1]:
                best[start + 1], previous[start + 1] = total[0], start
                chosen[start + 1] = self._unknown if piece_id is None else piece_id
            pair = text[start : start + 2]
            suffixes, longest = groups.get(pair) or self._find_group(pair)
            for end in range(start + 2, min(start + 2 + longest, size) + 1):
                piece_id = suffixes.get(text[start + 2 : end])
                if piece_id is not None:
                    total[0] = score + scores[piece_id]
                    if total[0] > best[end]:
                        best[end], previous[end], chosen[end] = total[0], start, piece_id
        ids, place = [], size
        while place:
            ids.append(chosen[place])
            place = previous[place]
        return ids[::-1]

    def _find_group(self, pair: str) -> _Group:
        if len(pair) < 2:
            return _NO_GROUP
        key = int.from_bytes(pair.encode().ljust(8, b"\0"))
        first, end = bisect_left(self._sorted_keys, key), bisect_right(self._sorted_keys, key)
        suffixes = {self._read_piece(number)[2:]: number for number in self._sorted_ids[first:end]}
        if not suffixes:  # not cached: texts can have any number of such pairs
            return _NO_GROUP
        if self._cached_pieces > _MAX_CACHED_PIECES:
            self._groups.clear()
            self._cached_pieces = 0
        group = self._groups[pair] = suffixes, max(map(len, suffixes))
        self._cached_pieces += len(suffixes)
        return group

    def _read_piece(self, piece_id: int) -> str:
        return self._text[self._starts[piece_id] : self._starts[piece_id + 1]].decode()


def _find_beginnings(vocabulary: Vocabulary) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the first two characters of each piece as a number, and whether it has only one."""
    text = np.frombuffer(vocabulary.text + bytes(8), np.uint8)
    starts = vocabulary.starts[:-1].astype(np.int64)
    lengths = np.diff(vocabulary.starts)
    first = _UTF8_SIZES[text[starts]]
    both = first + _UTF8_SIZES[text[starts + first]]
    heads = text[starts[:, np.newaxis] + np.arange(8)]
    heads[np.arange(8) >= both[:, np.newaxis]] = 0
    return heads.view(">u8").ravel().astype(np.uint64), lengths == first
