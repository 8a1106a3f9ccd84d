"""The model as an ONNX graph: an encoder over embedded tokens, its weights in 4-bit blocks.

A skip is added and then normed: onnxruntime's operator that does both at once takes longer.
"""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from jiyi.embeddings.e5 import message
from jiyi.embeddings.e5.weights import BLOCK, DIMS, EPSILON, HEADS, INNER, LAYERS, Weights

__all__ = ["TOKENS", "onnx_model"]

TOKENS = "tokens"  # the input: embedded tokens, of shape (count, 384)


def onnx_model(weights: Weights) -> bytes:
    """Return the model as onnxruntime reads it; it gives the mean of the last layer, of shape (384,)."""
    graph = _Graph(weights)
    hidden = graph.normed(TOKENS, "emb.ln")
    for layer in (f"l{number}." for number in range(LAYERS)):
        mixed = graph.linear(graph.attention(hidden, layer), [layer + "ao"], DIMS)
        hidden = graph.normed(graph.add("Add", hidden, mixed), layer + "aln")
        inner = graph.add("Gelu", graph.linear(hidden, [layer + "fi"], DIMS), own=True)
        skipped = graph.add("Add", hidden, graph.linear(inner, [layer + "fo"], INNER))
        hidden = graph.normed(skipped, layer + "oln")
    mean = graph.add("ReduceMean", hidden, axes=[0], keepdims=0)
    return message.model(graph.nodes, graph.tensors, (TOKENS, ["count", DIMS]), (mean, [DIMS]))


class _Graph:
    """Nodes and constants, gathered one after another; a value is known by its name."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self.nodes: list[bytes] = []
        self.tensors: list[bytes] = []
        size = DIMS // HEADS
        self._parted = self._constant("parted", np.array([-1, 3 * HEADS, size], np.int64))
        self._joined = self._constant("joined", np.array([-1, DIMS], np.int64))

    def add(self, operator: str, *inputs: str, own: bool = False, **attributes: message.Attribute) -> str:
        """Add a node and return its result."""
        result = f"value{len(self.nodes)}"
        self.nodes.append(message.node(operator, inputs, [result], own, **attributes))
        return result

    def normed(self, value: str, name: str) -> str:
        """Norm the layer with the tensors `name`.w and `name`.b."""
        tensors = [self._constant(name + part, self._weights.floats(name + part)) for part in (".w", ".b")]
        return self.add("LayerNormalization", value, *tensors, axis=-1, epsilon=EPSILON)

    def linear(self, value: str, names: list[str], columns: int) -> str:
        """Multiply with the matrices called `names`, one below the other, and add their biases."""
        packed = [self._weights.blocks(name + ".w", columns).paired() for name in names]
        codes, scales = (np.concatenate(parts) for parts in zip(*packed, strict=True))
        bias = np.concatenate([self._weights.floats(name + ".b") for name in names])
        constants = [
            self._constant(names[0] + part, values)
            for part, values in ((".codes", codes), (".scales", scales), (".bias", bias))
        ]
        sizes = {"N": len(bias), "K": columns, "bits": 4, "block_size": BLOCK, "accuracy_level": 4}
        product = self.add("MatMulNBits", value, *constants[:2], own=True, **sizes)
        return self.add("Add", product, constants[2])

    def attention(self, hidden: str, layer: str) -> str:
        """Mix every token with all others."""
        both = self.linear(hidden, [layer + "q", layer + "k", layer + "v"], DIMS)
        heads = self.add("Transpose", self.add("Reshape", both, self._parted), perm=[1, 0, 2])
        asked, keys, values = (f"{layer}{part}.heads" for part in "qkv")
        self.nodes.append(message.node("Split", [heads], [asked, keys, values], own=False, axis=0))
        scale = 1 / sqrt(DIMS // HEADS)
        shares = self.add("FusedMatMul", asked, keys, own=True, transB=1, alpha=scale)
        mixed = self.add("MatMul", self.add("Softmax", shares, axis=-1), values)
        return self.add("Reshape", self.add("Transpose", mixed, perm=[1, 0, 2]), self._joined)

    def _constant(self, name: str, values: NDArray[np.generic]) -> str:
        self.tensors.append(message.tensor(name, values))
        return name
