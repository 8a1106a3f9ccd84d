"""Writes the few parts of an ONNX message that the model needs, as onnx.proto numbers them."""

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Attribute", "Shaped", "model", "node", "tensor"]

_IR_VERSION, _OPSET = 8, 17
_OWN = "com.microsoft"  # operators that onnxruntime adds
_TYPES = {"float32": 1, "uint8": 2, "int64": 7}

Attribute = int | float | list[int]
Shaped = tuple[str, list[int | str]]  # a name and a shape; a size that varies is a name


def node(
    operator: str, inputs: Sequence[str], outputs: Sequence[str], own: bool, **attributes: Attribute
) -> bytes:
    """Return a node; `own` is whether the operator is onnxruntime's own."""
    parts = [_field(1, name) for name in inputs] + [_field(2, name) for name in outputs]
    parts += [_field(4, operator), _field(7, _OWN if own else "")]
    parts += [_field(5, _attribute(name, value)) for name, value in attributes.items()]
    return b"".join(parts)


def tensor(name: str, values: NDArray[np.generic]) -> bytes:
    """Return a named constant."""
    shape = b"".join(_field(1, size) for size in values.shape)
    data = _field(9, np.ascontiguousarray(values).tobytes())
    return b"".join((shape, _field(2, _TYPES[values.dtype.name]), _field(8, name), data))


def model(nodes: Sequence[bytes], tensors: Sequence[bytes], source: Shaped, result: Shaped) -> bytes:
    """Return the whole, of one input and one output, both float32."""
    parts = [_field(1, one) for one in nodes] + [_field(2, "e5")] + [_field(5, one) for one in tensors]
    graph = b"".join([*parts, _field(11, _value(*source)), _field(12, _value(*result))])
    versions = {"": _OPSET, _OWN: 1}
    opsets = [_field(8, _field(1, domain) + _field(2, version)) for domain, version in versions.items()]
    return b"".join([_field(1, _IR_VERSION), *opsets, _field(7, graph)])


def _value(name: str, shape: list[int | str]) -> bytes:
    sizes = [_field(1, _field(2 if isinstance(size, str) else 1, size)) for size in shape]
    kind = _field(1, _TYPES["float32"]) + _field(2, b"".join(sizes))
    return _field(1, name) + _field(2, _field(1, kind))


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _field(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _field(20, 1)
    if isinstance(value, int):
        return _field(1, name) + _field(3, value) + _field(20, 2)
    return _field(1, name) + b"".join(_field(8, one) for one in value) + _field(20, 7)


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return b"".join((_varint(number << 3 | 2), _varint(len(data)), data))


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # a negative number is written as two's complement
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
