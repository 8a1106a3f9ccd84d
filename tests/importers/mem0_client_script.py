"""Run by the Python of an environment with mem0ai: reads its client, and its Memory, into memories of jiyi.

JIYI_TEST_PATH=… python mem0_client_script.py http://127.0.0.1:8710/compat/mem0 KEY here.db
"""

import os
import sys
import tempfile

os.environ["OPENAI_API_KEY"] = "none"
from mem0 import Memory, MemoryClient

sys.path += os.environ["JIYI_TEST_PATH"].split(os.pathsep)  # after what mem0 needs

import jiyi
from jiyi.testing import HashEmbedder

HOST, KEY, FILE = sys.argv[1:]


class Words:
    config = None

    def embed(self, text, *_, **__):
        return [float(len(text) + i) for i in range(4)]

    def embed_batch(self, texts, *_, **__):
        return [self.embed(text) for text in texts]


client = MemoryClient(host=HOST, api_key=KEY)
for number in range(120):
    client.add(f"thing {number}", user_id="ana", infer=False, metadata={"n": number})
with jiyi.open(FILE, user_id="ana", background=False, embedder=HashEmbedder()) as memory:
    first, second = memory.import_(client), memory.import_(client)
    print(first.added, second.added, second.known)

store = {"provider": "qdrant", "config": {"path": tempfile.mkdtemp(), "embedding_model_dims": 4}}
local = Memory.from_config({"vector_store": store})
local.embedding_model = Words()
for number in range(30):
    local.add(
        [{"role": "user", "content": f"thing {number}"}], user_id="ben", infer=False, run_id=f"r{number}"
    )
with jiyi.open(FILE, user_id="ben", background=False, embedder=HashEmbedder()) as memory:
    first, second = memory.import_(local), memory.import_(local)
    print(first.added, second.added, second.known)
