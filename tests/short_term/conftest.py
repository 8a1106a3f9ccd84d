import pytest

from jiyi.storage import SqliteDatabase, SqlStore


@pytest.fixture
def store(tmp_path):
    store = SqlStore(SqliteDatabase(tmp_path / "sessions.db"))
    yield store
    store.close()
