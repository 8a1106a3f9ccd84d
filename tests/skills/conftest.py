from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def examples():
    return ROOT / "examples" / "skills"
