"""Cuts text into the pieces of the model's vocabulary: the likeliest sequence, by Viterbi.

Kudo 2018, "Subword Regularization", arXiv:1804.10959: each piece has a score, and the
sequence with the highest sum is taken.
"""

import re
from array import array
from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from jiyi.embeddings.e5.weights import Vocabulary

__all__ = ["Tokenizer"]

_SPACE = "\u2581"  # how pieces write a space
_SPACES = re.compile("  +")
_UNKNOWN = np.float32(10)  # a character in no piece scores so much less than the worst piece
_LENGTHS = np.repeat(np.array([1, 2, 3, 4], np.uint8), (0xC0, 0x20, 0x10, 0x10))  # by first byte of UTF-8

_MOST_KEPT = 120_000  # pieces kept as dictionaries: about 20 MB

_Group = tuple[dict[str, int], int]  # what follows two characters, with ids; length of the longest
_NO_GROUP: _Group = ({}, 0)


class Tokenizer:
    """Gives the ids that the model knows; safe to use from several threads.

    Pieces stay packed, sorted by their first two characters. Those that begin alike become a
    dictionary when a text first has these two. Memory: 10 MB, and up to 20 for dictionaries.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.first, self.last, self._unknown = vocabulary.first, vocabulary.last, vocabulary.unknown
        self._replaced, self._text = vocabulary.replaced, vocabulary.text
        self._starts = array("I", vocabulary.starts.astype(np.uintc).tobytes())
        self._scores = array("f", vocabulary.scores.astype(np.float32).tobytes())
        self._worst = float(vocabulary.scores.min() - _UNKNOWN)
        keys, single = _beginnings(vocabulary)
        self._single = {self._piece(number): number for number in np.flatnonzero(single).tolist()}
        longer = np.flatnonzero(~single & (np.arange(len(single)) != self._unknown))
        order = longer[np.argsort(keys[longer], kind="stable")]
        self._order = array("I", order.astype(np.uintc).tobytes())
        self._keys = array("Q", keys[order].tobytes())
        self._groups: dict[str, _Group] = {}
        self._kept = 0  # pieces in groups

    def ids(self, text: str) -> list[int]:
        """Return the ids of `text`, without the marks of beginning and end.

        `text` has no lone surrogates.
        """
        text = _SPACES.sub(" ", text.translate(self._replaced))
        text = (text if text.startswith(" ") else " " + text).replace(" ", _SPACE)
        size = len(text)
        best = array("f", [-1e30]) * (size + 1)  # float32 rounds sums, which settles ties
        best[0] = 0.0
        chosen, back = [self._unknown] * (size + 1), list(range(-1, size))
        total = array("f", [0.0])
        scores, groups, single = self._scores, self._groups, self._single
        for start in range(size):
            so_far = best[start]
            number = single.get(text[start])
            total[0] = so_far + (self._worst if number is None else scores[number])
            if total[0] > best[start + 1]:
                best[start + 1], back[start + 1] = total[0], start
                chosen[start + 1] = self._unknown if number is None else number
            pair = text[start : start + 2]
            after, longest = groups.get(pair) or self._group(pair)
            for end in range(start + 2, min(start + 2 + longest, size) + 1):
                number = after.get(text[start + 2 : end])
                if number is not None:
                    total[0] = so_far + scores[number]
                    if total[0] > best[end]:
                        best[end], back[end], chosen[end] = total[0], start, number
        return _path(chosen, back)

    def _group(self, pair: str) -> _Group:
        if len(pair) < 2:
            return _NO_GROUP
        key = int.from_bytes(pair.encode().ljust(8, b"\0"))
        after: dict[str, int] = {}
        for at in range(bisect_left(self._keys, key), len(self._keys)):
            if self._keys[at] != key:
                break
            number = self._order[at]
            after[self._piece(number)[2:]] = number
        if not after:  # not kept: texts can have any number of such pairs
            return _NO_GROUP
        if self._kept > _MOST_KEPT:
            self._groups.clear()
            self._kept = 0
        group = self._groups[pair] = after, max(map(len, after))
        self._kept += len(after)
        return group

    def _piece(self, number: int) -> str:
        return self._text[self._starts[number] : self._starts[number + 1]].decode()


def _beginnings(vocabulary: Vocabulary) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return of each piece its first two characters as a number, and whether it has but one."""
    text = np.frombuffer(vocabulary.text + bytes(8), np.uint8)
    starts = vocabulary.starts[:-1].astype(np.int64)
    lengths = np.diff(vocabulary.starts)
    first = _LENGTHS[text[starts]]
    both = first + _LENGTHS[text[starts + first]]
    heads = text[starts[:, np.newaxis] + np.arange(8)]
    heads[np.arange(8) >= both[:, np.newaxis]] = 0
    return heads.view(">u8").ravel().astype(np.uint64), lengths == first


def _path(chosen: list[int], back: list[int]) -> list[int]:
    ids = []
    place = len(back) - 1
    while place:
        ids.append(chosen[place])
        place = back[place]
    return ids[::-1]
