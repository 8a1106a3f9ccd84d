"""Text to vectors, so that memories are found by meaning.

`E5Embedder` is bundled and works offline, `OpenAIEmbedder` asks a compatible endpoint,
`CachedEmbedder` wraps either; all follow the protocol `Embedder`. `split_parts` cuts a
long record into pieces worth a vector each. Importing this loads no model and no client.
"""

from jiyi.embeddings.e5 import E5Embedder
from jiyi.embeddings.embedder import CachedEmbedder, Embedder, TextKind, Vectors32
from jiyi.embeddings.openai import OpenAIEmbedder
from jiyi.embeddings.parts import split_parts
from jiyi.endpoint import Endpoint

__all__ = [
    "CachedEmbedder",
    "E5Embedder",
    "Embedder",
    "Endpoint",
    "OpenAIEmbedder",
    "TextKind",
    "Vectors32",
    "split_parts",
]
