"""What computes the model: onnxruntime, or numpy where there is none."""

import os
from math import sqrt
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from jiyi.embeddings.e5.onnx_engine import OnnxEngine
from jiyi.embeddings.e5.weights import DIMS, EPSILON, HEADS, INNER, LAYERS, Weights
from jiyi.errors import EmbeddingError
from jiyi.one_thread import one_blas_thread

__all__ = ["Engine", "EngineName", "make_engine"]

EngineName = Literal["auto", "onnxruntime", "numpy"]

_Floats = NDArray[np.float32]

_NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"
"""Read once, as onnxruntime is imported: without it, it reports the models it loads to its maker."""


class Engine(Protocol):
    """Computes the model on one thread; safe to call from several."""

    name: str

    def mean(self, tokens: _Floats) -> _Floats:
        """Return the mean of the last layer, of shape (384,), for embedded tokens of shape (count, 384)."""
        ...


def make_engine(name: EngineName, weights: Weights) -> Engine:
    """Return the engine; "auto" is onnxruntime where it can be imported.

    Raises:
        EmbeddingError: onnxruntime is asked for and cannot be imported, or refuses the model.
    """
    if name != "numpy":
        told = _NO_TELEMETRY in os.environ
        os.environ.setdefault(_NO_TELEMETRY, "1")
        try:
            import onnxruntime
        except ImportError as error:
            if name == "onnxruntime":
                raise EmbeddingError(
                    f"onnxruntime cannot be imported ({error}): `pip install onnxruntime`, "
                    "or set embedding_engine to auto"
                ) from error
        else:
            return OnnxEngine(onnxruntime, weights)
        finally:
            if not told:
                del os.environ[_NO_TELEMETRY]
    return _NumpyEngine(weights)


class _NumpyEngine:
    """Holds the matrices as float32: 85 MB. Texts of several threads run one after another."""

    def __init__(self, weights: Weights) -> None:
        self.name = f"numpy {np.__version__}"
        self._matrices: dict[str, tuple[_Floats, _Floats]] = {}
        self._norms = {"emb.ln": (weights.floats("emb.ln.w"), weights.floats("emb.ln.b"))}
        for layer in (f"l{number}." for number in range(LAYERS)):
            for name in ("q", "k", "v", "ao", "fi", "fo"):
                matrix = weights.blocks(f"{layer}{name}.w", INNER if name == "fo" else DIMS).rows()
                self._matrices[layer + name] = matrix.T, weights.floats(f"{layer}{name}.b")
            for name in ("aln", "oln"):
                self._norms[layer + name] = (
                    weights.floats(f"{layer}{name}.w"),
                    weights.floats(f"{layer}{name}.b"),
                )

    def mean(self, tokens: _Floats) -> _Floats:
        with one_blas_thread():
            hidden = self._normed(tokens, "emb.ln")
            for layer in (f"l{number}." for number in range(LAYERS)):
                mixed = self._linear(self._attention(hidden, layer), layer + "ao")
                hidden = self._normed(hidden + mixed, layer + "aln")
                inner = _gelu(self._linear(hidden, layer + "fi"))
                hidden = self._normed(hidden + self._linear(inner, layer + "fo"), layer + "oln")
            mean: _Floats = hidden.mean(axis=0)
            return mean

    def _linear(self, value: _Floats, name: str) -> _Floats:
        matrix, bias = self._matrices[name]
        product = value @ matrix
        product += bias
        return product

    def _normed(self, value: _Floats, name: str) -> _Floats:
        weight, bias = self._norms[name]
        normed: _Floats = value - value.mean(axis=1, keepdims=True)
        normed /= np.sqrt(np.square(normed).mean(axis=1, keepdims=True) + np.float32(EPSILON))
        normed *= weight
        normed += bias
        return normed

    def _attention(self, hidden: _Floats, layer: str) -> _Floats:
        asked, keys, values = (
            self._linear(hidden, layer + part).reshape(len(hidden), HEADS, -1).transpose(1, 0, 2)
            for part in "qkv"
        )
        shares: _Floats = asked @ keys.transpose(0, 2, 1)
        shares *= np.float32(1 / sqrt(DIMS // HEADS))
        shares -= shares.max(axis=-1, keepdims=True)
        np.exp(shares, out=shares)
        shares /= shares.sum(axis=-1, keepdims=True)
        mixed: _Floats = shares @ values
        return mixed.transpose(1, 0, 2).reshape(len(hidden), DIMS)


def _gelu(value: _Floats) -> _Floats:
    """Return x times the normal distribution's share below x, good to 2e-7.

    Abramowitz and Stegun 1964, "Handbook of Mathematical Functions", 7.1.26.
    """
    distance = np.abs(value)
    distance *= np.float32(sqrt(0.5))
    near = np.float32(1) / (1 + np.float32(0.3275911) * distance)
    tail = np.float32(1.061405429) * near
    for term in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail += np.float32(term)
        tail *= near
    tail *= np.exp(-np.square(distance))
    tail *= np.float32(0.5)
    return value * np.where(value < 0, tail, 1 - tail)
