"""Databases opened beside a test's own connections; all are closed in the end."""

from typing import Any

import pytest

from jiyi.storage import Store
from jiyi.storage.postgres import PostgresDatabase
from jiyi.storage.postgres.connection import ReadChannel, WriteTransaction


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


@pytest.fixture
def trips(monkeypatch):
    """How many statements went in each round trip."""
    counted: list[int] = []
    send, ask = WriteTransaction._send, ReadChannel.execute

    def noted_send(self, statements):
        counted.append(len(statements))
        return send(self, statements)

    def noted_ask(self, user_id, asked, **options):
        counted.append(len(asked))
        return ask(self, user_id, asked, **options)

    monkeypatch.setattr(WriteTransaction, "_send", noted_send)
    monkeypatch.setattr(ReadChannel, "execute", noted_ask)
    return counted
