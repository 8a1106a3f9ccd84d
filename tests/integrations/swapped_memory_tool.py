"""A plugin for pytest: Anthropic's own tests of its memory tool get ours, and a folder with its files."""

import asyncio
import tempfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from anthropic.lib.tools import _beta_builtin_memory_tool as builtin
from anyio import Path as AsyncPath

import jiyi
from jiyi.integrations.anthropic_memory import JiyiAsyncMemoryTool, JiyiMemoryTool
from jiyi.testing import HashEmbedder

COMMANDS = ("view", "create", "str_replace", "insert", "delete", "rename")


class Shown:
    """Reads files that a test puts into the folder, and writes there what the tool has."""

    def __init__(self, base_path: str = "./memory") -> None:
        file = Path(tempfile.mkdtemp()) / "m.db"
        super().__init__(jiyi.open(file, user_id="ana", embedder=HashEmbedder(), background=False))
        self.base_path = Path(base_path)
        self.folder = self.base_path / "memories"
        self.folder.mkdir(parents=True, exist_ok=True)

    def read(self) -> None:
        for file in self.folder.rglob("*"):
            *above, name = file.relative_to(self.folder).parts
            if file.is_file() and self._memory.get_item(("memories", *above), name) is None:
                self._memory.put_item(("memories", *above), name, {"content": file.read_bytes().decode()})

    def write(self) -> None:
        for file in self.folder.rglob("*"):
            if file.is_file():
                file.unlink()
        for item in self._memory.items("memories"):
            file = self.folder.joinpath(*item.namespace[1:], item.key)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(item.value["content"].encode())


class Tool(Shown, JiyiMemoryTool):
    @property
    def memory_root(self) -> Path:
        return self.folder


class AsyncTool(Shown, JiyiAsyncMemoryTool):
    @property
    def memory_root(self) -> AsyncPath:
        return AsyncPath(self.folder)

    async def _ensure_memory_root(self) -> None:
        pass


def shown(run: Callable[..., str]) -> Callable[..., str]:
    @wraps(run)
    def command(self: Any, asked: Any) -> str:
        self.read()
        try:
            return run(self, asked)
        finally:
            self.write()

    return command


def shown_async(run: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run)
    async def command(self: Any, asked: Any) -> str:
        await asyncio.to_thread(self.read)
        try:
            return await run(self, asked)
        finally:
            await asyncio.to_thread(self.write)

    return command


for name in COMMANDS:
    setattr(Tool, name, shown(getattr(JiyiMemoryTool, name)))
    setattr(AsyncTool, name, shown_async(getattr(JiyiAsyncMemoryTool, name)))
builtin.BetaLocalFilesystemMemoryTool = Tool
builtin.BetaAsyncLocalFilesystemMemoryTool = AsyncTool
