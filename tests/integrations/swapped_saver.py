"""A plugin for pytest: LangGraph's own tests of checkpointers get ours in place of `SqliteSaver`."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import langgraph.checkpoint.sqlite
import langgraph.checkpoint.sqlite.aio

import jiyi
from jiyi.integrations.langgraph_saver import JiyiSaver
from jiyi.testing import HashEmbedder


class Saver(JiyiSaver):
    """Opens as `SqliteSaver` does."""

    @classmethod
    @contextmanager
    def from_conn_string(cls, _: str) -> Iterator[JiyiSaver]:
        with (
            tempfile.TemporaryDirectory() as folder,
            jiyi.open(
                Path(folder) / "m.db", user_id="ana", embedder=HashEmbedder(), background=False
            ) as memory,
        ):
            yield cls(memory)


class AsyncSaver(Saver):
    """Opens as `AsyncSqliteSaver` does."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, name: str) -> AsyncIterator[JiyiSaver]:
        with Saver.from_conn_string(name) as saver:
            yield saver


langgraph.checkpoint.sqlite.SqliteSaver = Saver
langgraph.checkpoint.sqlite.aio.AsyncSqliteSaver = AsyncSaver
