"""The systems that recall_speed.py compares, and the process in which one of them does one step.

    python recall_systems.py load|ask|save SYSTEM FOLDER ROUND

The folder holds what `write_chat` wrote; the answer is one line of JSON on standard output.
A process of its own for each step: ``ask`` opens what ``load`` left, knows no more than the
questions, and its memory is that of the system alone.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from chat import DIMS, ask, chat, vectors_of
from numpy.typing import NDArray

__all__ = ["LIMIT", "SAVES", "SYSTEMS", "WARM_UP", "write_chat"]

LIMIT = 10  # messages asked for
SAVES = 50  # messages saved one by one in a round
WARM_UP = 5  # questions before the timed ones, the first of which meets everything cold

Dict = dict[str, Any]
Vector = NDArray[np.float32]


class System(Protocol):
    """A store of messages with vectors, in a folder of its own."""

    def load(self, messages: Sequence[Dict], vectors: NDArray[np.float32]) -> None:
        """Take in everything and close; timed."""

    def open(self) -> None:
        """Open what was loaded; timed."""

    def search(self, text: str, vector: Vector) -> list[str]:
        """Return the ids of what was found; timed."""

    def save(self, message: Dict, vector: Vector) -> None:
        """Take one message in; timed."""


class Lookup:
    """An embedder that only looks up: what embedding takes is not compared."""

    name = f"lookup:{DIMS}"
    dims = DIMS

    def __init__(self, texts: Sequence[str] = (), vectors: NDArray[np.float32] | None = None) -> None:
        self._places = {text: place for place, text in enumerate(texts)}
        self._vectors = vectors if vectors is not None else np.empty((0, DIMS), np.float32)
        self.asked: Vector | None = None  # the vector of every text, where it is set

    def embed(self, texts: Sequence[str], kind: str) -> NDArray[np.float32]:  # noqa: ARG002
        if self.asked is not None:
            return np.tile(self.asked, (len(texts), 1))
        return self._vectors[[self._places[text] for text in texts]]


class Jiyi:
    """A `MemoryManager`: words and vectors, ranked together."""

    def __init__(self, folder: Path) -> None:
        import jiyi  # here, so that the others' processes do without it

        self._jiyi = jiyi
        self._source = folder / "messages.jsonl"
        self._path = folder / "jiyi" / "memory.db"
        self._embedder = Lookup()

    def load(self, messages: Sequence[Dict], vectors: NDArray[np.float32]) -> None:
        self._embedder = Lookup([message["content"] for message in messages], vectors)
        self.open()
        receipt = self._memory.import_(self._source)
        if receipt.added != len(messages):
            raise RuntimeError(f"{receipt.added} of {len(messages)} were imported: {receipt.rejected[:1]}")
        self._memory.flush()
        self._memory.close()

    def open(self) -> None:
        self._path.parent.mkdir(exist_ok=True)
        self._memory = self._jiyi.open(
            self._path, user_id="ana", embedder=self._embedder, background=False, learn_facts=False
        )

    def search(self, text: str, vector: Vector) -> list[str]:
        self._embedder.asked = vector
        return [hit.id for hit in self._memory.search(text, limit=LIMIT)]

    def save(self, message: Dict, vector: Vector) -> None:  # noqa: ARG002
        self._memory.save_message(message["session_id"], role=message["role"], content=message["content"])


class Chroma:
    """A collection with Chroma's own settings: an HNSW index, the texts and their user beside it."""

    def __init__(self, folder: Path, where: Dict | None = None) -> None:
        import chromadb

        self._chromadb = chromadb
        self._folder = folder / "chroma"
        self._where = where

    def load(self, messages: Sequence[Dict], vectors: NDArray[np.float32]) -> None:
        client = self._client()
        collection = client.create_collection("messages", embedding_function=None)
        most = client.get_max_batch_size()
        for start in range(0, len(messages), most):
            some = messages[start : start + most]
            collection.add(
                ids=[message["id"] for message in some],
                embeddings=vectors[start : start + most],
                documents=[message["content"] for message in some],
                metadatas=[_metadata(message) for message in some],
            )
        client.close()

    def open(self) -> None:
        self._collection = self._client().get_collection("messages", embedding_function=None)

    def search(self, text: str, vector: Vector) -> list[str]:  # noqa: ARG002
        found = self._collection.query(query_embeddings=[vector], n_results=LIMIT, where=self._where)
        ids: list[str] = found["ids"][0]
        return ids

    def save(self, message: Dict, vector: Vector) -> None:
        self._collection.add(
            ids=[message["id"]],
            embeddings=vector[None],
            documents=[message["content"]],
            metadatas=[_metadata(message)],
        )

    def _client(self) -> Any:
        settings = self._chromadb.config.Settings(anonymized_telemetry=False)
        return self._chromadb.PersistentClient(self._folder, settings=settings)


class Scan:
    """Every vector compared by one product: the floor, without words, users, texts or a file to keep."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "vectors.npy"

    def load(self, messages: Sequence[Dict], vectors: NDArray[np.float32]) -> None:
        pass

    def open(self) -> None:
        self._matrix = np.load(self._path)

    def search(self, text: str, vector: Vector) -> list[str]:  # noqa: ARG002
        scores = self._matrix @ vector
        most = min(LIMIT, len(scores))
        best = np.argpartition(scores, -most)[-most:]
        return [f"m{place}" for place in best[np.argsort(-scores[best])]]


SYSTEMS: dict[str, Callable[[Path], Any]] = {
    "jiyi": Jiyi,
    "chroma_of_user": partial(Chroma, where={"user_id": "ana"}),
    "chroma": Chroma,
    "scan": Scan,
}
"""The systems by name."""


def write_chat(folder: Path, count: int, questions: int, rounds: int) -> None:
    """Write a chat of ``count`` messages, what is saved after it in each round, and questions about it."""
    said = chat(count + rounds * SAVES)
    vectors = vectors_of(count + rounds * SAVES)
    lines = [json.dumps(one.message, ensure_ascii=False) for one in said]
    (folder / "messages.jsonl").write_text("\n".join(lines[:count]), encoding="utf-8")
    (folder / "later.jsonl").write_text("\n".join(lines[count:]), encoding="utf-8")
    np.save(folder / "vectors.npy", vectors[:count])
    np.save(folder / "later.npy", vectors[count:])
    asked, near = ask(said[:count], vectors[:count], WARM_UP + questions)
    pairs = [[question.text, question.target] for question in asked]
    (folder / "questions.json").write_text(json.dumps(pairs, ensure_ascii=False), encoding="utf-8")
    np.save(folder / "questions.npy", near)


def load(system: System, folder: Path, _: int) -> Dict:
    """Load the chat; return the seconds it took."""
    messages, vectors = _read(folder / "messages.jsonl"), np.load(folder / "vectors.npy")
    return {"load": timed(lambda: system.load(messages, vectors))}


def search(system: System, folder: Path, _: int) -> Dict:
    """Ask all questions; return seconds, the share whose message was found, and bytes of memory."""
    asked = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    vectors = np.load(folder / "questions.npy")
    opening = timed(system.open)
    seconds, found = [], 0
    for (text, target), vector in zip(asked, vectors, strict=True):
        began = time.perf_counter()
        ids = system.search(text, vector)
        seconds.append(time.perf_counter() - began)
        found += target in ids
    return {
        "open": opening,
        "first": seconds[0],
        "searches": seconds[WARM_UP:],
        "found": found / len(asked),
        **_memory(),
    }


def save(system: System, folder: Path, number: int) -> Dict:
    """Save a round's messages one by one, each followed by a search; return seconds and bytes of memory."""
    mine = slice(number * SAVES, (number + 1) * SAVES)
    later, vectors = _read(folder / "later.jsonl")[mine], np.load(folder / "later.npy")[mine]
    asked = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    near = np.load(folder / "questions.npy")
    system.open()
    for (text, _), question in list(zip(asked, near, strict=True))[:WARM_UP]:
        system.search(text, question)
    saves, searches = [], []
    for place, (message, vector) in enumerate(zip(later, vectors, strict=True)):
        (text, _), question = asked[place % len(asked)], near[place % len(asked)]
        saves.append(timed(partial(system.save, message, vector)))
        searches.append(timed(partial(system.search, text, question)))
    return {"saves": saves, "searches": searches, **_memory()}


STEPS = {"load": load, "ask": search, "save": save}


def timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _memory() -> Dict:
    """Return what this process holds now, and the most it has held."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith("kB")}
    return {"rss": kilobytes["VmRSS"] * 1024, "peak_rss": kilobytes["VmHWM"] * 1024}


def _read(path: Path) -> list[Dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _metadata(message: Dict) -> dict[str, str]:
    return {"user_id": "ana", "session_id": message["session_id"], "role": message["role"]}


if __name__ == "__main__":
    step, name, place, number = sys.argv[1:]
    print(json.dumps(STEPS[step](SYSTEMS[name](Path(place)), Path(place), int(number))))
