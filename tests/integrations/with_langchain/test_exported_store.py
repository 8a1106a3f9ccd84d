"""LangGraph's own store opens what was exported for it."""

import pytest

sqlite = pytest.importorskip("langgraph.store.sqlite")

from jiyi.exporters import export_for  # noqa: E402


def test_their_store_reads_writes_and_sweeps_the_file(memory, tmp_path):
    memory.remember("我搬到了杭州。")
    memory.put_item(("users", "ana"), "settings", {"theme": "dark"})
    memory.put_item(("users", "ana"), "brief", {"n": 1}, ttl=3_600)
    export_for("langgraph", memory, tmp_path / "store.db")
    with sqlite.SqliteStore.from_conn_string(str(tmp_path / "store.db")) as store:
        store.setup()
        settings = store.get(("users", "ana"), "settings")
        assert settings is not None
        assert settings.value == {"theme": "dark"}
        assert any("杭州" in item.value["content"] for item in store.search(("memories",)))
        assert store.get(("users", "ana"), "brief") is not None
        assert store.sweep_ttl() == 0
        store.put(("users", "ana"), "settings", {"theme": "light"})
        again = store.get(("users", "ana"), "settings")
        assert again is not None
        assert again.value == {"theme": "light"}
