"""Which checkpoints the checkpointer reads to list some."""

from typing import Any

import pytest

pytest.importorskip("langgraph.checkpoint.base")

from langgraph.checkpoint.base import empty_checkpoint

import jiyi
from jiyi.integrations.langgraph_saver import JiyiSaver
from jiyi.testing import HashEmbedder


def at(thread: str = "t", **named: Any) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread, **named}}


def test_the_newest_checkpoint_is_listed_without_the_others(tmp_path, monkeypatch):
    memory = jiyi.open(tmp_path / "m.db", user_id="ana", embedder=HashEmbedder(), background=False)
    saver, ids = JiyiSaver(memory), ["3", "1", "4", "2"]

    def put(id: str, ns: str) -> None:
        checkpoint = {**empty_checkpoint(), "id": id}
        saver.put(at(checkpoint_ns=ns), checkpoint, {"source": "loop", "step": int(id)}, {})

    def listed(limit: int | None, **named: Any) -> list[str]:
        return [one.config["configurable"]["checkpoint_id"] for one in saver.list(at(**named), limit=limit)]

    for id, ns in zip(ids, ("", "", "sub", "sub"), strict=True):
        put(id, ns)
    assert listed(None) == ["4", "3", "2", "1"]
    items = memory.items

    def only_writes(namespace: Any, **asked: Any) -> Any:
        assert namespace[1] == "writes"
        return items(namespace, **asked)

    with monkeypatch.context() as patched:
        patched.setattr(memory, "items", only_writes)
        assert listed(1) == listed(1, checkpoint_ns="sub") == ["4"]
        assert listed(1, checkpoint_ns="") == ["3"]
        assert listed(9, checkpoint_ns="", checkpoint_id="1") == listed(9, checkpoint_id="1") == ["1"]
    saver.prune(["t"])  # which namespace has which newest one is no longer noted
    put("0", "")
    assert (listed(1), listed(None)) == (["4"], ["4", "3", "0"])
    memory.close()
