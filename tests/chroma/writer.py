"""Saves words to a memory with its vectors in Chroma, each with its vector, until it is done or killed."""

import sys

import jiyi
from jiyi.testing import HashEmbedder

path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
options = {"vector_index": "chroma", "chroma_url": sys.argv[4] if len(sys.argv) > 4 else None}
with jiyi.open(
    path, user_id="ana", embedder=HashEmbedder(), background=False, lock_timeout=60, **options
) as memory:
    print("begun", flush=True)
    for number in range(count):
        memory.save_message(name, {"role": "user", "content": f"{name} {number}"})
        memory.flush()
