"""Run by the Python of an environment with mem0ai: reads its client into a memory of jiyi.

JIYI_TEST_PATH=… python mem0_client_script.py http://127.0.0.1:8710/compat/mem0 KEY here.db
"""

import os
import sys

from mem0 import MemoryClient

sys.path += os.environ["JIYI_TEST_PATH"].split(os.pathsep)  # behind what mem0 needs

import jiyi
from jiyi.testing import HashEmbedder

HOST, KEY, FILE = sys.argv[1:]

client = MemoryClient(host=HOST, api_key=KEY)
for number in range(150):
    client.add(f"thing {number}", user_id="ana", infer=False, metadata={"n": number})
with jiyi.open(FILE, user_id="ana", background=False, embedder=HashEmbedder()) as memory:
    first, second = memory.import_(client), memory.import_(client)
    print(first.added, second.added, second.known)
