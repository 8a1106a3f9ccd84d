"""Databases opened beside a test's own connections; all are closed in the end."""

from typing import Any

import pytest

from jiyi.storage import Store
from jiyi.storage.postgres import PostgresDatabase


@pytest.fixture
def open_database(postgres_url):
    opened: list[PostgresDatabase] = []

    def make(url: str = postgres_url, **limits: Any) -> PostgresDatabase:
        opened.append(PostgresDatabase(url, **limits))
        return opened[-1]

    yield make
    for database in opened:
        database.close()


@pytest.fixture
def database(open_database):
    return open_database()


@pytest.fixture
def store(database):
    return Store(database)
