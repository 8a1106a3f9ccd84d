"""The tables of sentences in docs/facts.md and docs/zh/facts.md, said one day after the other."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jiyi.long_term.facts.memory import FactMemory
from jiyi.long_term.facts.merge import Learned
from jiyi.records import Fact, Message, Scope
from jiyi.storage import SqliteDatabase, Store

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "facts.md": {"ends": "ends", "back": "takes back", "until": "until", "none": "nothing"},
    "zh/facts.md": {"ends": "取代", "back": "收回", "until": "到", "none": "无"},
}
HEADS = ("said by Ana", "Ana 说")
ANA = Scope(user_id="ana", session_id="s")


def rows_of(page: str) -> list[tuple[str, str]]:
    """Return the rows of a page's table, a path from docs/."""
    lines = (DOCS / page).read_text("utf-8").splitlines()
    start = next(
        place for place, line in enumerate(lines) if line.startswith(tuple(f"| {h} |" for h in HEADS))
    )
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        said, became = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append((said, became))
    return rows


@pytest.fixture
def say(path):
    database = SqliteDatabase(path)
    store = Store(database)
    now = [datetime(2026, 6, 1, 9, tzinfo=UTC)]
    memory = FactMemory(store, clock=lambda: now[0])

    def said(text: str) -> tuple[Learned, dict[str, Fact]]:
        role, name = ("assistant", None) if text.startswith("[assistant] ") else ("user", "Ana")
        text = text.removeprefix("[assistant] ")
        message = Message(role=role, name=name, content=text, created_at=now[0], scope=ANA)
        with store.transaction():
            learned = memory.learn([one for one in store.put([message]) if isinstance(one, Message)])
        now[0] += timedelta(days=1)
        known = memory.facts(ANA, status=["active", "superseded", "retracted", "expired"], limit=1_000)
        return learned, {fact.id: fact for fact in known}

    yield said
    database.close()


def shown(fact: Fact, words: dict[str, str]) -> str:
    if fact.category in ("plan", "todo", "rule"):
        return f"{fact.category}: {fact.object}"
    end = fact.valid_to if fact.status == "active" and not fact.superseded_by else None
    return fact.line + (f" ({words['until']} {end.date()})" if end else "")


@pytest.mark.parametrize("page", PAGES)
def test_the_table_says_what_becomes_of_sentences(page, say):
    words = PAGES[page]
    rows = rows_of(page)
    assert len(rows) >= 40
    found: list[tuple[str, str]] = []
    known_active: set[str] = set()
    for text, _ in rows:
        learned, known = say(text)
        active, known_active = known_active, {i for i, fact in known.items() if fact.status == "active"}
        parts = [shown(known[id_], words) for id_ in learned.new]
        over = [id_ for id_, fact in known.items() if fact.status == "expired" and id_ in active]
        parts += [f"{words['ends']} {known[id_].line}" for id_ in (*learned.superseded, *over)]
        parts += [f"{words['back']} {known[id_].line}" for id_ in learned.retracted]
        found.append((text, "; ".join(parts) or words["none"]))
    assert found == rows


@pytest.mark.parametrize(
    ("readme", "page"), [("../README.md", "facts.md"), ("../README.zh.md", "zh/facts.md")]
)
def test_the_readmes_show_rows_of_it(readme, page):
    rows = rows_of(readme)
    assert len(rows) == 10
    assert set(rows) <= set(rows_of(page))
