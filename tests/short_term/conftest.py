import pytest

from jiyi.storage import SqliteDatabase, Store


@pytest.fixture
def store(tmp_path):
    store = Store(SqliteDatabase(tmp_path / "sessions.db"))
    yield store
    store.close()
