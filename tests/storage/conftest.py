"""Memories on files of their own, for tests of export and import."""

import pytest
from memory_file import File

from jiyi.storage.transfer import copy


@pytest.fixture
def opened():
    files = []

    def make(path):
        files.append(File(path))
        return files[-1]

    yield make
    for file in files:
        file.database.close()


@pytest.fixture
def one(opened, tmp_path):
    return opened(tmp_path / "one.db")


@pytest.fixture
def fresh(opened, tmp_path):
    return opened(tmp_path / "two.db")


@pytest.fixture
def small_batches(monkeypatch):
    """Several pieces of everything that is copied."""
    monkeypatch.setattr(copy, "_BATCH_SIZE", 4)
