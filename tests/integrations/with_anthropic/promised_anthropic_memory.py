"""Anthropic's memory tool: each text is a file, named so that a folder lists them in their order."""

import re

from jiyi import MemoryManager
from jiyi.integrations.anthropic import JiyiMemoryTool


class Promised:
    name = "anthropic_memory"
    keeps = frozenset({"history", "delete"})

    async def save(self, memory: MemoryManager, user: str, session: str, texts: list[str]) -> None:
        tool = JiyiMemoryTool(memory, user_id=user)
        for text in texts:
            number = len(memory.items(("memories", session), limit=10_000, user_id=user))
            while "already exists" in _created(tool, f"/memories/{session}/{number:04}.md", text):
                number += 1

    async def history(self, memory: MemoryManager, user: str, session: str) -> list[str]:
        tool = JiyiMemoryTool(memory, user_id=user)
        if f"\t/memories/{session}/\n" not in tool.call({"command": "view", "path": "/memories"}) + "\n":
            return []
        listed = tool.call({"command": "view", "path": f"/memories/{session}"})
        paths = re.findall(r"\t(.*\.md)$", listed, re.MULTILINE)
        return [tool.call({"command": "view", "path": path}).partition("\n     1\t")[2] for path in paths]

    async def delete(self, memory: MemoryManager, user: str, session: str) -> None:
        JiyiMemoryTool(memory, user_id=user).call({"command": "delete", "path": f"/memories/{session}"})


def _created(tool: JiyiMemoryTool, path: str, text: str) -> str:
    try:
        return str(tool.call({"command": "create", "path": path, "file_text": text}))
    except Exception as error:
        if "already exists" in str(error):
            return str(error)
        raise
