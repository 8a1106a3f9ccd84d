"""Memories on files of their own, for tests of export and import."""

import pytest
from memory_file import File


@pytest.fixture
def opened():
    files = []

    def make(path):
        files.append(File(path))
        return files[-1]

    yield make
    for file in files:
        file.database.close()
