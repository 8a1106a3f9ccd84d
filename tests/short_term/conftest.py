import pytest

from jiyi.storage import SqliteDatabase, SqliteStore


@pytest.fixture
def store(tmp_path):
    store = SqliteStore(SqliteDatabase(tmp_path / "sessions.db"))
    yield store
    store.close()
