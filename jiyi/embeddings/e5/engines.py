"""The engines that compute the model: onnxruntime, or numpy where that is not installed.

The graph for onnxruntime is an encoder over embedded tokens, its weights in 4-bit blocks. A residual
is added and then normalized: the operator that does both at once takes longer. Fields have the numbers of
onnx.proto; only the few parts that the model needs are written.
"""

import os
import struct
from collections.abc import Sequence
from math import sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from jiyi.embeddings.e5.weights import BLOCK, DIMS, EPSILON, HEADS, INNER, LAYERS, Weights
from jiyi.errors import EmbeddingError
from jiyi.one_thread import one_blas_thread

EngineName = Literal["auto", "onnxruntime", "numpy"]

_Floats = NDArray[np.float32]

# Read once, as onnxruntime is imported: without it, it reports the models it loads to its maker.
_NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"
_TOKENS = "tokens"  # the input: embedded tokens, of shape (count, 384)
_ONNX_IR_VERSION, _ONNX_OPSET = 8, 17
_ORT_DOMAIN = "com.microsoft"  # operators that onnxruntime adds
_ONNX_TYPES = {"float32": 1, "uint8": 2, "int64": 7}


_Proto = dict[int, Any]  # a message of protobuf, by the numbers of its fields


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
            for name in (f"{layer}aln", f"{layer}oln"):
                self._norms[name] = weights.floats(f"{name}.w"), weights.floats(f"{name}.b")

    def compute_mean(self, tokens: _Floats) -> _Floats:
        """Return the mean of the last layer, of shape (384,), for embedded tokens of shape (count, 384)."""
        with one_blas_thread():
            hidden = self._normalize(tokens, "emb.ln")
            for layer in (f"l{number}." for number in range(LAYERS)):
                mixed = self._linear(self._attention(hidden, layer), layer + "ao")
                hidden = self._normalize(hidden + mixed, layer + "aln")
                inner = _gelu(self._linear(hidden, layer + "fi"))
                hidden = self._normalize(hidden + self._linear(inner, layer + "fo"), layer + "oln")
            mean: _Floats = hidden.mean(axis=0)
            return mean

    def _linear(self, value: _Floats, name: str) -> _Floats:
        matrix, bias = self._matrices[name]
        product = value @ matrix
        product += bias
        return product

    def _normalize(self, value: _Floats, name: str) -> _Floats:
        weight, bias = self._norms[name]
        normed: _Floats = value - value.mean(axis=1, keepdims=True)
        normed /= np.sqrt(np.square(normed).mean(axis=1, keepdims=True) + np.float32(EPSILON))
        normed *= weight
        normed += bias
        return normed

    def _attention(self, hidden: _Floats, layer: str) -> _Floats:
        projected = (self._linear(hidden, layer + part).reshape(len(hidden), HEADS, -1) for part in "qkv")
        queries, keys, values = (part.transpose(1, 0, 2) for part in projected)
        weights: _Floats = queries @ keys.transpose(0, 2, 1)
        weights *= np.float32(1 / sqrt(DIMS // HEADS))
        weights -= weights.max(axis=-1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed: _Floats = weights @ values
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


class _OnnxEngine:
    def __init__(self, runtime: Any, weights: Weights) -> None:
        self.name = f"onnxruntime {runtime.__version__}"
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.enable_cpu_mem_arena = False  # it would keep what the longest text took
        options.log_severity_level = 3  # errors
        model = _build_onnx_model(weights)
        try:
            self._session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its errors have no common class
            problem = f"onnxruntime {runtime.__version__} refuses the model ({error})"
            raise EmbeddingError(f"{problem}: upgrade it, or set embedding_engine to numpy") from error

    def compute_mean(self, tokens: _Floats) -> _Floats:
        mean: _Floats = self._session.run(None, {_TOKENS: tokens})[0]
        return mean


Engine = _NumpyEngine | _OnnxEngine
"""Computes the model on one thread; safe to call from several."""


def make_engine(name: EngineName, weights: Weights) -> Engine:
    """Return the engine; "auto" is onnxruntime where it can be imported.

    EmbeddingError: onnxruntime is asked for and cannot be imported, or refuses the model.
    """
    if name == "numpy":
        return _NumpyEngine(weights)
    was_set = _NO_TELEMETRY in os.environ
    os.environ.setdefault(_NO_TELEMETRY, "1")
    try:
        import onnxruntime
    except ImportError as error:
        if name == "auto":
            return _NumpyEngine(weights)
        advice = "`pip install onnxruntime`, or set embedding_engine to auto"
        raise EmbeddingError(f"onnxruntime cannot be imported ({error}): {advice}") from error
    finally:
        if not was_set:
            del os.environ[_NO_TELEMETRY]
    return _OnnxEngine(onnxruntime, weights)


def _build_onnx_model(weights: Weights) -> bytes:
    """Return the model as onnxruntime reads it; it gives the mean of the last layer, of shape (384,)."""
    graph = _Graph(weights)
    hidden = graph.normalize(_TOKENS, "emb.ln")
    for layer in (f"l{number}." for number in range(LAYERS)):
        mixed = graph.linear(graph.attention(hidden, layer), [layer + "ao"], DIMS)
        hidden = graph.normalize(graph.add("Add", hidden, mixed), layer + "aln")
        inner = graph.add("Gelu", graph.linear(hidden, [layer + "fi"], DIMS), from_ort=True)
        skipped = graph.add("Add", hidden, graph.linear(inner, [layer + "fo"], INNER))
        hidden = graph.normalize(skipped, layer + "oln")
    mean = graph.add("ReduceMean", hidden, axes=[0], keepdims=0)
    values = {11: _value(_TOKENS, ["count", DIMS]), 12: _value(mean, [DIMS])}
    opsets = [{1: "", 2: _ONNX_OPSET}, {1: _ORT_DOMAIN, 2: 1}]
    return _encode({1: _ONNX_IR_VERSION, 8: opsets, 7: {1: graph.nodes, 2: "e5", 5: graph.tensors, **values}})


class _Graph:
    """Collects nodes and constants; values are referred to by name."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self.nodes: list[_Proto] = []
        self.tensors: list[_Proto] = []
        size = DIMS // HEADS
        self._heads_shape = self._add_const("heads_shape", np.array([-1, 3 * HEADS, size], np.int64))
        self._joined_shape = self._add_const("joined_shape", np.array([-1, DIMS], np.int64))

    def add(self, operator: str, *inputs: str, from_ort: bool = False, **attributes: Any) -> str:
        result = f"value{len(self.nodes)}"
        self.nodes.append(_node(operator, inputs, [result], from_ort, **attributes))
        return result

    def normalize(self, value: str, name: str) -> str:
        tensors = [self._add_const(name + part, self._weights.floats(name + part)) for part in (".w", ".b")]
        return self.add("LayerNormalization", value, *tensors, axis=-1, epsilon=EPSILON)

    def linear(self, value: str, names: list[str], columns: int) -> str:
        """Multiply with the matrices called `names`, stacked, and add their biases."""
        packed = [self._weights.blocks(name + ".w", columns).pair_codes() for name in names]
        codes, scales = (np.concatenate(parts) for parts in zip(*packed, strict=True))
        bias = np.concatenate([self._weights.floats(name + ".b") for name in names])
        tensors = {".codes": codes, ".scales": scales, ".bias": bias}
        constants = [self._add_const(names[0] + part, values) for part, values in tensors.items()]
        sizes = {"N": len(bias), "K": columns, "bits": 4, "block_size": BLOCK, "accuracy_level": 4}
        product = self.add("MatMulNBits", value, *constants[:2], from_ort=True, **sizes)
        return self.add("Add", product, constants[2])

    def attention(self, hidden: str, layer: str) -> str:
        projected = self.linear(hidden, [layer + "q", layer + "k", layer + "v"], DIMS)
        heads = self.add("Transpose", self.add("Reshape", projected, self._heads_shape), perm=[1, 0, 2])
        queries, keys, values = (f"{layer}{part}.heads" for part in "qkv")
        self.nodes.append(_node("Split", [heads], [queries, keys, values], from_ort=False, axis=0))
        scale = 1 / sqrt(DIMS // HEADS)
        weights = self.add("FusedMatMul", queries, keys, from_ort=True, transB=1, alpha=scale)
        mixed = self.add("MatMul", self.add("Softmax", weights, axis=-1), values)
        return self.add("Reshape", self.add("Transpose", mixed, perm=[1, 0, 2]), self._joined_shape)

    def _add_const(self, name: str, values: NDArray[np.generic]) -> str:
        data = np.ascontiguousarray(values).tobytes()
        self.tensors.append({1: values.shape, 2: _ONNX_TYPES[values.dtype.name], 8: name, 9: data})
        return name


def _node(
    operator: str, inputs: Sequence[str], outputs: Sequence[str], from_ort: bool, **given: Any
) -> _Proto:
    """Return a node; `from_ort` says whether the operator is one that onnxruntime adds."""
    attributes = [{1: name} | _attribute(value) for name, value in given.items()]
    return {1: inputs, 2: outputs, 4: operator, 7: _ORT_DOMAIN if from_ort else "", 5: attributes}


def _attribute(value: float | Sequence[int]) -> _Proto:
    if isinstance(value, float):
        return {2: value, 20: 1}
    return {3: value, 20: 2} if isinstance(value, int) else {8: value, 20: 7}


def _value(name: str, shape: Sequence[int | str]) -> _Proto:
    """Return an input or output of float32; a size that varies is a name."""
    sizes = [{2 if isinstance(size, str) else 1: size} for size in shape]
    return {1: name, 2: {1: {1: _ONNX_TYPES["float32"], 2: {1: sizes}}}}


def _encode(message: _Proto) -> bytes:
    """Return a message as protobuf: fields by number, a list is a repeated field, a dict a message."""
    parts = []
    for number, given in message.items():
        for value in given if isinstance(given, list | tuple) else [given]:
            if isinstance(value, float):
                parts += [_varint(number << 3 | 5), struct.pack("<f", value)]
            elif isinstance(value, int):
                parts += [_varint(number << 3), _varint(value)]
            else:
                data = _encode(value) if isinstance(value, dict) else value
                data = data.encode() if isinstance(data, str) else data
                parts += [_varint(number << 3 | 2), _varint(len(data)), data]
    return b"".join(parts)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # a negative number is written as two's complement
    return bytes([value & 0x7F | 0x80]) + _varint(value >> 7) if value > 0x7F else bytes([value])
