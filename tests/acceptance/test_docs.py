"""The documentation tells the truth: its examples run, its lists are complete, its links lead somewhere."""

import ast
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import pytest
import typer.main
from http_server import serving
from scripted_chat import ScriptedChat, says

import jiyi
from jiyi import errors, wiring
from jiyi.cli.app import app
from jiyi.long_term.recall.weights import PRIORS, WEIGHTS
from jiyi.manager import MemoryManager
from jiyi.server.app import make_app
from jiyi.settings import Settings
from jiyi.testing import HashEmbedder

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
READMES = [ROOT / "README.md", ROOT / "README.zh.md"]
PAGES = [*READMES, *sorted(DOCS.rglob("*.md"))]
LINKING = [*PAGES, *sorted(ROOT.glob("*.md"))]
SAID = {  # by the language model behind the examples
    READMES[0]: ["Noted.", "At the school on Larch Street."],
    READMES[1]: ["记下了。", "去落叶松街的学校。"],
}
SERVER = "http://127.0.0.1:8710"  # in a page; there is one while its blocks run, wherever a port is free
ENGLISH_ONLY = {"decisions.md", "recall-log.md"}
BOTH_LANGUAGES = [DOCS, DOCS / "zh"]

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    info: str  # what stands after the opening fence
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [Block(m[1].strip(), m[2], text.count("\n", 0, m.start()) + 1) for m in FENCE.finditer(text)]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands() -> dict[str, click.Command]:
    root: Any = typer.main.get_command(app)
    return {name: root.get_command(None, name) for name in root.list_commands(None)}


def options_of(command: click.Command) -> set[str]:
    """Every spelling of every option, such as --no-vectors; of a group those of its commands."""
    names: set[str] = set().union(*map(options_of, getattr(command, "commands", {}).values()))
    for parameter in command.params:
        if parameter.param_type_name == "option":
            names.update(parameter.opts, parameter.secondary_opts)
    return names - {"--help", "-h"}


def sections(text: str) -> dict[str, str]:
    """The parts of a page below its second-level headings."""
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture
def quiet_surroundings(tmp_path, monkeypatch):
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)


def shown(block: Block, where: str, names: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    """Run a block, or compare it with what the one before it printed."""
    if block.info == "python":
        exec(compile("\n" * block.line + block.text, where, "exec"), names)
        names["printed"] = capsys.readouterr().out
    elif block.info == "text output":
        assert names["printed"] == block.text, f"{where}:{block.line}"


@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if "```python" in p.read_text("utf-8") and p.name != "integrations.md"],
    ids=name_of,
)
@pytest.mark.usefixtures("quiet_surroundings")
def test_examples_run(page, monkeypatch, capsys, request):
    """A page's Python blocks run in order; a ```text output block is what the one before printed."""
    if page not in READMES:  # the READMEs run with the bundled model
        monkeypatch.setattr(wiring, "embedder_for", lambda settings: HashEmbedder())
    if any("JIYI_DATABASE_URL" in block.text for block in blocks_of(page) if block.info == "python"):
        monkeypatch.setenv("JIYI_DATABASE_URL", request.getfixturevalue("postgres_url"))
    if any('vector_index="chroma"' in block.text for block in blocks_of(page) if block.info == "python"):
        pytest.importorskip("chromadb", reason='chromadb is not installed: pip install "jiyi[chroma]"')
    names: dict[str, object] = {"__name__": "__main__"}
    served = _served() if any(SERVER in block.text for block in blocks_of(page)) else nullcontext(SERVER)
    with served as server, ScriptedChat(*map(says, SAID[page])) if page in SAID else nullcontext() as chat:
        if chat:
            monkeypatch.setenv("OPENAI_BASE_URL", chat.url)
            monkeypatch.setenv("OPENAI_API_KEY", "none")
        for block in blocks_of(page):
            shown(replace(block, text=block.text.replace(SERVER, server)), name_of(page), names, capsys)
        if chat:
            last = chat.asked[-1]["messages"]
            assert [message["role"] for message in last] == ["system", "user", "assistant", "user"]


def frameworks() -> Iterator[Any]:
    for folder in BOTH_LANGUAGES:
        for block in blocks_of(folder / "integrations.md"):
            if block.info == "bash":  # how it is installed, the first of a framework's part
                name = block.text.partition("[")[2].partition("]")[0]
                yield pytest.param(folder / "integrations.md", name, id=f"{folder.name}-{name}")


@pytest.mark.parametrize(("page", "name"), list(frameworks()))
@pytest.mark.usefixtures("quiet_surroundings")
def test_examples_of_integrations_run(page, name, monkeypatch, capsys):
    """A framework's blocks run where it is installed."""
    monkeypatch.setattr(wiring, "embedder_for", lambda settings: HashEmbedder())
    names: dict[str, object] = {"__name__": "__main__"}
    after = page.read_text("utf-8").partition(f"[{name}]")[2].partition("\n## ")[0]
    mine = [block for block in blocks_of(page) if block.text and block.text in after]
    assert [block for block in mine if block.info == "python"]
    try:
        for block in mine:
            shown(block, name_of(page), names, capsys)
    except (errors.MissingExtra, ModuleNotFoundError) as error:
        pytest.skip(f"{error}; run by `make test-integrations`")


@contextmanager
def _served() -> Iterator[str]:
    with serving(make_app(jiyi.open("served.db", embedder=HashEmbedder(), background=False))) as url:
        yield url


@pytest.mark.parametrize("folder", BOTH_LANGUAGES, ids=name_of)
def test_every_command_and_option_is_documented(folder):
    described = sections((folder / "cli.md").read_text("utf-8"))
    for name, command in commands().items():
        heading = next((h for h in described if h.split()[:2] == ["jiyi", name]), None)
        assert heading, f"no section for {name}"
        for option in options_of(command):
            assert re.search(rf"`{option}\b(?!-)", described[heading]), f"{name} {option}"
        for parameter in command.params:
            if parameter.param_type_name == "argument":
                shown = str(getattr(parameter, "metavar", None) or parameter.name).upper()
                assert shown in heading, f"{name} {shown}"
    shared = (folder / "cli.md").read_text("utf-8")
    for option in options_of(typer.main.get_command(app)):
        assert option in shared, option


def example_lines() -> Iterator[tuple[str, list[str]]]:
    for page in PAGES:
        for block in blocks_of(page):
            for line in block.text.splitlines() if block.info == "console" else ():
                if line.startswith("$ jiyi "):
                    yield f"{name_of(page)}:{block.line}", shlex.split(line)[2:]


@pytest.mark.slow
def test_example_commands_exist():
    lines = list(example_lines())
    assert lines
    for where, (name, *words) in lines:
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert name in commands(), where
        assert used <= options_of(commands()[name]), where


@pytest.mark.parametrize("folder", BOTH_LANGUAGES, ids=name_of)
def test_every_setting_is_documented_with_its_default(folder):
    lines = (folder / "settings.md").read_text("utf-8").splitlines()
    for name, field in Settings.model_fields.items():
        rows = [line for line in lines if line.startswith(f"| `{name}` | `JIYI_{name.upper()}` |")]
        assert len(rows) == 1, name
        default = rows[0].split("|")[3].strip()
        shown = default.strip("`") if default.startswith("`") else None
        assert shown == (None if field.default in (None, "") else f"{field.default}"), name


@pytest.mark.parametrize("folder", BOTH_LANGUAGES, ids=name_of)
def test_every_verb_and_every_error_is_documented(folder):
    text = (folder / "manager.md").read_text("utf-8")
    for name in dir(MemoryManager):
        if not name.startswith("_"):
            assert re.search(rf"`{name}[(`]", text), name
    text = (folder / "errors.md").read_text("utf-8")
    for name in errors.__all__:
        assert re.search(rf"`{name}`", text), name
    lines = (folder / "long_term.md").read_text("utf-8").splitlines()
    first_cells = [line.split("|")[1] for line in lines if line.startswith("| `")]
    described = {name for cell in first_cells for name in re.findall(r"`([a-z_]+)`", cell)}
    assert described == {*WEIGHTS, *PRIORS, "in_force"}


@pytest.mark.parametrize("page", LINKING, ids=name_of)
def test_links_resolve(page):
    for target in LINK.findall(FENCE.sub("", page.read_text("utf-8"))):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), f"{name_of(page)} links to {target}"
        assert not anchor, f"{name_of(page)}: link to whole pages, headings change"


def test_both_languages_have_the_same_pages_and_each_with_a_part_an_example():
    english = {page.name for page in DOCS.glob("*.md")} - ENGLISH_ONLY
    assert english == {page.name for page in (DOCS / "zh").glob("*.md")}
    without = {"README.md", "names.md", "cli.md", "rest.md", "server.md", "mem0.md", *ENGLISH_ONLY}
    for page in DOCS.rglob("*.md"):
        if page.name not in without:
            assert any(block.info == "python" for block in blocks_of(page)), name_of(page)


@pytest.mark.parametrize("folder", BOTH_LANGUAGES, ids=name_of)
def test_the_index_names_every_page_and_the_tree_every_folder(folder):
    linked = {Path(target).name for target in LINK.findall((folder / "README.md").read_text("utf-8"))}
    assert {page.name for page in folder.glob("*.md")} - {"README.md"} <= linked
    text = (folder / "README.md").read_text("utf-8")
    for room in (ROOT / "jiyi").iterdir():
        if (room / "__init__.py").exists():
            assert f"\n  {room.name}/ " in text, room.name


@pytest.mark.parametrize("page", READMES, ids=name_of)
def test_a_readme_is_short(page):
    assert len(page.read_text("utf-8").splitlines()) <= 150


PACKAGE = ROOT / "jiyi"
LLM_PAGES = [ROOT / "docs" / "llm.md", ROOT / "docs" / "zh" / "llm.md"]

MODULE = re.compile(r"`([a-z_0-9]+(?:\.[a-z_0-9]+)+)`")


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield module_name(path), ast.parse(path.read_text("utf-8"))


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
@pytest.mark.parametrize("page", LLM_PAGES, ids=lambda page: page.parent.name)
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
        if name in named(LLM_PAGES[0], 0) or name.split(".")[0] in folders
        for prompt in prompts
    }
    assert loaded == {file.stem for file in (PACKAGE / "prompts" / "en").glob("*.md")}


@pytest.mark.parametrize("page", LLM_PAGES, ids=lambda page: page.parent.name)
def test_every_row_is_whole(page):
    tables = re.findall(r"(?:^\|.*\n)+", page.read_text("utf-8"), re.MULTILINE)
    for table, columns in zip(tables[:2], (6, 5), strict=True):
        for row in table.splitlines():
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            assert len(cells) == columns, row
            assert all(cells), row
