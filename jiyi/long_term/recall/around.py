"""What was said around a row, and in its session, brought to bear on it. Pure functions on columns."""

import numpy as np
from numpy.typing import NDArray

from jiyi.storage import Candidates

__all__ = ["Column", "borrowed_words", "session_prior", "share_of_turns", "shifted", "turn_taking"]

Column = NDArray[np.float32]
"""One number for each row of the candidates."""

_BEST = 5  # rows of a session that stand for it
_LENT = ((0.7, 0.4), (0.5, 0.3))  # share of a word lent from 1 and 2 rows before, and from after
_ENOUGH = 0.7  # of a word's BM25 part: its third occurrence is no more worth lending


def shifted(values: Column, neighbours: NDArray[np.int32]) -> Column:
    """Return each row's neighbour's value, 0 where there is none."""
    return np.where(neighbours >= 0, values[neighbours], np.float32(0))


def turn_taking(table: Candidates) -> Column:
    """Return for each row the share of neighbours in its session that another one spoke, 0 to 1.

    Near 1 in a dialogue, 0 in one person's loose notes: there a neighbour says nothing about
    a row, and features of neighbours are multiplied by this.
    """
    out = np.zeros(len(table), np.float32)
    joined = table.previous >= 0
    if not joined.any():
        return out
    turned = joined & (table.speaker != table.speaker[table.previous])
    pairs = np.bincount(table.session[joined], minlength=int(table.session.max()) + 1)
    turns = np.bincount(table.session[turned], minlength=len(pairs))
    share = (turns / np.maximum(pairs, 1)).astype(np.float32)
    inside = table.session >= 0
    out[inside] = share[table.session[inside]]
    return out


def share_of_turns(table: Candidates) -> float:
    """Return the share of all neighbours that another one spoke, 0 to 1; 0 where there are none."""
    joined = table.previous >= 0
    turned = joined & (table.speaker != table.speaker[table.previous])
    return float(turned.sum() / max(int(joined.sum()), 1))


def borrowed_words(words: NDArray[np.float32], table: Candidates, dialogue: Column) -> NDArray[np.float32]:
    """Return what each term adds to each row when it may borrow words from the turns around it.

    An answer is often put in other words than the question it answers. Of each term the
    best offer counts: the row's own, or a share of a neighbour's, less the further away.
    """
    capped = np.minimum(words, _ENOUGH)
    best = capped.copy()
    for neighbours, shares in zip((table.previous, table.following), _LENT, strict=True):
        lent = capped
        for share in shares:
            lent = np.where(neighbours[:, None] >= 0, lent[neighbours], 0)
            np.maximum(best, lent * (share * dialogue)[:, None], out=best)
    return best


def session_prior(scores: Column, table: Candidates) -> Column:
    """Return the mean of the five best scores of each row's session, 0 outside of sessions.

    A session with fewer rows counts the missing ones as 0: one good row is less than five.
    """
    out = np.zeros(len(scores), np.float32)
    inside = np.flatnonzero(table.session >= 0)
    if not len(inside):
        return out
    order = inside[np.lexsort((-scores[inside], table.session[inside]))]
    sessions = table.session[order]
    starts = np.flatnonzero(np.append(True, sessions[1:] != sessions[:-1]))
    place = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    first = place < _BEST
    sums = np.bincount(sessions[first], weights=scores[order[first]], minlength=int(sessions.max()) + 1)
    out[inside] = (sums / _BEST)[table.session[inside]]
    return out
