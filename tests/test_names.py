"""What `import jiyi` offers and costs; a name from a tutorial that it lacks says what to use."""

import importlib
import inspect
import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from other_processes import run_apart
from refusing import refused
from tables import read_tables

import jiyi
from jiyi.async_manager import AsyncMemoryManager
from jiyi.names import USE

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [DOCS / "names.md", DOCS / "zh" / "names.md"]

TABLES = read_tables(__file__)
TUTORIALS = set(TABLES["names of tutorials"])
VERBS = {name.removeprefix("memory."): use for name, use in USE.items() if "." in name}
NAMES = sorted(name for name in USE if "." not in name)
PLACE = re.compile(r"\bjiyi((?:\.[A-Za-z_0-9]+)+)")


def importing(name: str) -> ImportError:
    with pytest.raises(ImportError) as caught:
        exec(f"from jiyi import {name}", {})
    return caught.value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
@pytest.mark.parametrize("name", sorted({*TUTORIALS, *TABLES["words of tutorials"], *NAMES, *VERBS}))
def test_the_page_knows_the_name(page, name):
    lines = [line for line in page.read_text("utf-8").splitlines() if line.startswith("| ")]
    known = [re.split(r"(?<!\\)\|", line)[1] for line in lines]
    assert any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", cell, re.ASCII) for cell in known)


def test_every_name_of_a_tutorial_has_its_words_and_none_is_listed():
    assert set(USE) >= TUTORIALS
    assert not set(USE) & (set(dir(jiyi)) | set(jiyi.__all__))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_what_to_use_and_that_is_there(name):
    assert str(importing(name)) == f"jiyi has no {name!r}; use {USE[name]}; see docs/names.md"
    for path in PLACE.findall(USE[name]):
        *modules, last = path.strip(".").split(".")
        assert hasattr(importlib.import_module(".".join(["jiyi", *modules])), last), path
    assert set(re.findall(r"\bmemory\.([a-z_]+)", USE[name])) <= set(dir(jiyi.MemoryManager))
    assert not hasattr(jiyi, name)
    refused(AttributeError, f"no attribute '{name}'; use ", getattr, jiyi, name)


@pytest.mark.parametrize("wrap", [lambda memory: memory, AsyncMemoryManager], ids=["plain", "async"])
def test_a_verb_of_another_library_says_what_to_use(open_memory, wrap):
    memory = wrap(open_memory())
    for name, use in VERBS.items():
        refused(AttributeError, f"no attribute '{name}'; use {re.escape(use)}$", getattr, memory, name)
        assert set(re.findall(r"\bmemory\.([a-z_]+)", use)) <= set(dir(memory)), name
    refused(AttributeError, "no attribute 'foo'$", getattr, memory, "foo")


@pytest.mark.parametrize("name", ["LLMReranker", "counter_for", "Summarize", "E5Embedder", "ForgetReceipt"])
def test_a_name_from_elsewhere_in_jiyi_says_where(name):
    found = PLACE.findall(str(importing(name)))[0].strip(".").split(".")
    module = importlib.import_module(".".join(["jiyi", *found[:-1]]))
    assert found[-1] == name
    assert hasattr(module, name)


@pytest.mark.parametrize("name", ["Foo", "_Foo", "vector_memory", "__wrapped__"])
def test_an_unknown_name_has_the_usual_error(name):
    assert str(importing(name)) == f"cannot import name {name!r} from 'jiyi' ({jiyi.__file__})"
    refused(AttributeError, f"^module 'jiyi' has no attribute '{name}'$", getattr, jiyi, name)


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["testing", "evaluate", "agent", "cli"])
def test_folders_are_imported_as_ever(folder):
    run_apart(f"from jiyi import {folder}; assert {folder}.__name__ == 'jiyi.{folder}'")


@pytest.mark.slow
def test_they_are_read_only_when_one_is_missing():
    run_apart("import sys, jiyi; jiyi.open, jiyi.Agent; assert 'jiyi.names' not in sys.modules")


def test_what_is_exported_is_what_is_public_in_order():
    assert not [name for name in jiyi.__all__ if not hasattr(jiyi, name)]
    members = {
        name
        for name, value in vars(jiyi.api).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert members | {"errors", "__version__"} == set(jiyi.__all__)
    assert jiyi.__all__ == sorted(jiyi.__all__, key=lambda name: (not name[0].isupper(), name))
    assert len(jiyi.__all__) == len(set(jiyi.__all__))


def _public(owner: object, name: str) -> list[tuple[str, object]]:
    found = [(name, owner)]
    if inspect.isclass(owner):
        found += [
            (f"{name}.{member}", value)
            for member, value in inspect.getmembers(owner)
            if not member.startswith("_")
            and (inspect.isfunction(value) or inspect.ismethod(value) or isinstance(value, property))
            and (getattr(value, "__module__", "") or "").startswith("jiyi")
        ]
    return found


PUBLIC = [
    pair
    for name in jiyi.__all__
    if callable(getattr(jiyi, name))
    for pair in _public(getattr(jiyi, name), name)
] + [pair for name in jiyi.errors.__all__ for pair in _public(getattr(jiyi.errors, name), f"errors.{name}")]


@pytest.mark.parametrize(("name", "member"), PUBLIC, ids=[name for name, _ in PUBLIC])
def test_everything_public_has_a_docstring(name, member):
    words = inspect.getdoc(member) or ""
    assert words, f"jiyi.{name} has no docstring"
    assert not words.startswith(f"{name}("), f"jiyi.{name} has only the docstring dataclass made"


def test_every_error_and_the_version_are_ours():
    assert all(issubclass(getattr(jiyi.errors, name), jiyi.JiyiError) for name in jiyi.errors.__all__)
    assert all(name in (jiyi.errors.__doc__ or "") for name in jiyi.errors.__all__)
    assert jiyi.__version__ == version("jiyi")


# Run in a fresh interpreter; the audit hook sees every file and socket that is opened.
_PROBE = """
import json, sys, threading
seen = []
def watch(event, details):
    if event.startswith("socket.") or event in ("subprocess.Popen", "os.mkdir", "os.remove"):
        seen.append(event)
    elif event == "open":
        path, mode, flags = details
        if (mode and set("wax+") & set(mode)) or (flags & 3):
            seen.append(f"{event} {path}")
        elif not str(path).endswith((".py", ".pyc", ".so", ".pth")):
            read.append(str(path))
read = []
sys.dont_write_bytecode = True
sys.addaudithook(watch)
import jiyi
alone = sorted(sys.modules)
jiyi.open
print(json.dumps({
    "modules": sorted({name.partition(".")[0] for name in sys.modules}),
    "threads": threading.active_count(),
    "seen": seen,
    "read": read,
    "alone": alone,
}))
"""


@pytest.fixture(scope="module")
def import_of_jiyi():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROBE], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.slow
def test_heavy_packages_wait_for_their_use(import_of_jiyi):
    assert set(import_of_jiyi["modules"]) & set(TABLES["heavy packages"]) == set()


def test_the_import_starts_no_thread_writes_nothing_and_loads_and_reads_only_ours(import_of_jiyi):
    assert (import_of_jiyi["threads"], import_of_jiyi["seen"]) == (1, [])
    ours = [path for path in import_of_jiyi["read"] if "jiyi" in path and "dist-info" not in path]
    assert not [path for path in ours if not path.endswith(".sql")]
    ours = [n for n in import_of_jiyi["alone"] if n.partition(".")[0] in ("jiyi", "numpy", "pydantic")]
    assert ours == ["jiyi"]
