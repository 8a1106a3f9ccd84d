"""Fit linear models by Newton's method: a softmax over lists, and a logistic regression."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.recall.weights import Weights

Floats = NDArray[np.float64]

PENALTY = 1e-3  # on squared weights of standardised signs


def importance(names: Sequence[str]) -> Floats:
    """Weigh questions so that a family of files counts with the root of how many it has."""
    counts = {name: names.count(name) for name in set(names)}
    weights = np.array([counts[name] ** -0.5 for name in names])
    return weights / weights.mean()


def named(names: Sequence[str], weights: Floats) -> Weights:
    return {name: round(float(weight), 4) for name, weight in zip(names, weights, strict=True) if weight}


def fitted(
    names: Sequence[str],
    rows: Sequence[Floats],
    targets: Sequence[float],
    counts: Sequence[float],
    penalty: float,
) -> Weights:
    matrix = np.concatenate([np.stack(rows), np.ones((len(rows), 1))], axis=1)
    shares = np.array(counts) / np.mean(counts)
    return named((*names, "constant"), logistic(matrix, np.array(targets), shares, penalty))


def listwise(lists: Sequence[tuple[tuple[Floats, Floats], float]], penalty: float = PENALTY) -> Floats:
    """Minimise the softmax cross-entropy of the right rows of weighted lists by Newton's method."""
    scale = np.concatenate([matrix for (matrix, _), _ in lists]).std(0)
    scale[scale < 1e-9] = 1
    total = sum(weight for _, weight in lists)
    weights = np.zeros(len(scale))
    for _ in range(30):
        slope, curve = 2 * penalty * weights, 2 * penalty * np.eye(len(scale))
        for (matrix, target), weight in lists:
            scaled = matrix / scale
            odds = scaled @ weights
            odds = np.exp(odds - odds.max())
            odds /= odds.sum()
            share = weight / total
            slope += share * (scaled.T @ (odds * target.sum() - target))
            mean = odds @ scaled
            curve += share * ((scaled * odds[:, None]).T @ scaled - np.outer(mean, mean))
        step = np.linalg.solve(curve, slope)
        weights -= step / max(1.0, np.abs(step).max())
        if np.abs(step).max() < 1e-5:
            break
    return np.asarray(weights / scale)


def logistic(matrix: Floats, target: Floats, counts: Floats, penalty: float) -> Floats:
    """Fit a logistic regression by Newton's method; the last column is the constant."""
    shares = counts / len(matrix)
    scale = np.where(matrix.std(0) > 1e-9, matrix.std(0), 1)
    scaled = matrix / scale
    penalties = np.full(matrix.shape[1], penalty)
    penalties[-1] = 1e-9
    weights = np.zeros(matrix.shape[1])
    for _ in range(40):
        likely = 1 / (1 + np.exp(-(scaled @ weights).clip(-30, 30)))
        slope = scaled.T @ (shares * (likely - target)) + 2 * penalties * weights
        curve = (scaled * (shares * likely * (1 - likely))[:, None]).T @ scaled
        step = np.linalg.solve(curve + 2 * np.diag(penalties + 1e-9), slope)
        weights -= step / max(1.0, np.abs(step).max())
        if np.abs(step).max() < 1e-5:
            break
    return np.asarray(weights / scale)
