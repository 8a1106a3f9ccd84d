"""docs/llm.md names every module that asks a language model or another endpoint, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jiyi"
PAGES = [ROOT / "docs" / "llm.md", ROOT / "docs" / "zh" / "llm.md"]

MODULE = re.compile(r"`([a-z_0-9]+(?:\.[a-z_0-9]+)+)`")


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield name_of(path), ast.parse(path.read_text("utf-8"))


def calls(tree: ast.Module) -> Iterator[tuple[str, str, ast.Call]]:
    """Give the calls of a module: what they are made on, what they are called, and the call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield ast.unparse(node.func.value), node.func.attr, node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield "", node.func.id, node


def asks_a_model(tree: ast.Module) -> bool:
    return any(
        called in ("ask_json", "ask_each")
        or (called in ("complete", "chat") and re.search(r"llm|model", on.lower()))
        for on, called, _ in calls(tree)
    )


def asks_an_endpoint(tree: ast.Module) -> bool:
    imported = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    retries = any(
        node.module == "jiyi.endpoint" and any(name.name == "retry" for name in node.names)
        for node in imported
    )
    return retries or any(called in ("embed", "retry_within") for _, called, _ in calls(tree))


def prompts_of(tree: ast.Module) -> set[str]:
    """Return the prompts that a module loads, or has loaded by what asks for it."""
    place = {"load_prompt": 0, "ask_each": 1}
    given = (call.args[place[called]] for _, called, call in calls(tree) if called in place)
    chosen = (
        name
        for node in given
        for name in ([node.body, node.orelse] if isinstance(node, ast.IfExp) else [node])
    )
    return {name.value for name in chosen if isinstance(name, ast.Constant)}


def named(page: Path, table: int) -> set[str]:
    """Return the modules in the last column of one of the page's tables."""
    tables = re.findall(r"(?:^\|.*\n)+", page.read_text("utf-8"), re.MULTILINE)
    return {name for row in tables[table].splitlines() for name in MODULE.findall(row.split(" | ")[-1])}


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_every_module_that_asks_a_model_or_another_endpoint_is_named(page):
    asking = {name for name, tree in modules() if not name.startswith("llm.") and asks_a_model(tree)}
    assert asking
    assert named(page, 0) == asking
    # A cache of vectors hands on what these ask; models have a table of their own; `endpoint` is how all ask.
    others = ("embeddings.", "llm.", "endpoint")
    asking = {name for name, tree in modules() if not name.startswith(others) and asks_an_endpoint(tree)}
    assert asking
    assert named(page, 1) == asking


@pytest.mark.slow
def test_every_prompt_belongs_to_a_module_that_is_named():
    folders = {"llm", "agent"}  # they fill prompts in beside the module that asks
    users = {name: prompts_of(tree) for name, tree in modules()}
    loaded = {
        prompt
        for name, prompts in users.items()
        if name in named(PAGES[0], 0) or name.split(".")[0] in folders
        for prompt in prompts
    }
    assert loaded == {file.stem for file in (PACKAGE / "prompts" / "en").glob("*.md")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_every_row_is_whole(page):
    tables = re.findall(r"(?:^\|.*\n)+", page.read_text("utf-8"), re.MULTILINE)
    for table, columns in zip(tables[:2], (6, 5), strict=True):
        for row in table.splitlines():
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            assert len(cells) == columns, row
            assert all(cells), row
