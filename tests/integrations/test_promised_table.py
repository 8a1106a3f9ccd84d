"""The table of frameworks and promises in the documentation is what the adapters are asked for."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGES = [HERE.parents[1] / "docs" / folder / "integrations.md" for folder in ("", "zh")]
ORDER = ("history", "window", "recall", "delete")
ROW = re.compile(r"^\| ([a-z-]+) \| (`Jiyi.*?) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|", re.MULTILINE)
KEEPS = re.compile(r"keeps = frozenset\(\{(.*?)\}\)")


@pytest.mark.parametrize("page", PAGES, ids=["en", "zh"])
def test_the_documentation_says_which_promises_concern_which(page):
    rows = [cells for _, _, *cells in ROW.findall(page.read_text("utf-8"))]
    told = [sorted(name for name, cell in zip(ORDER, cells, strict=True) if cell != "–") for cells in rows]
    files = [file.read_text("utf-8") for file in HERE.glob("*/promised_*.py")]
    kept = [sorted(re.findall(r"\w+", found[1])) for text in files if (found := KEEPS.search(text))]
    assert len(kept) == len(files)
    assert sorted(told) == sorted([*kept, []]), "the checkpointer keeps states and has none of them"
