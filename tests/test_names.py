"""A name from a tutorial that jiyi lacks: the error and docs/names.md say what to use."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from refusing import refused
from tables import read_tables

import jiyi
from jiyi.names import USE

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [DOCS / "names.md", DOCS / "zh" / "names.md"]

TABLES = read_tables(__file__)
TUTORIALS = set(TABLES["names of tutorials"])
PLACE = re.compile(r"\bjiyi((?:\.[A-Za-z_0-9]+)+)")


def importing(name: str) -> ImportError:
    with pytest.raises(ImportError) as caught:
        exec(f"from jiyi import {name}", {})
    return caught.value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
@pytest.mark.parametrize("name", sorted({*TUTORIALS, *TABLES["words of tutorials"], *USE}))
def test_the_page_knows_the_name(page, name):
    lines = [line for line in page.read_text("utf-8").splitlines() if line.startswith("| ")]
    known = [re.split(r"(?<!\\)\|", line)[1] for line in lines]
    assert any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", cell, re.ASCII) for cell in known)


def test_every_name_of_a_tutorial_has_its_words_and_none_is_listed():
    assert set(USE) >= TUTORIALS
    assert not set(USE) & (set(dir(jiyi)) | set(jiyi.__all__))


@pytest.mark.parametrize("name", sorted(USE))
def test_a_name_says_what_to_use_and_that_is_there(name):
    assert str(importing(name)) == f"jiyi has no {name!r}; use {USE[name]}; see docs/names.md"
    for path in PLACE.findall(USE[name]):
        *modules, last = path.strip(".").split(".")
        assert hasattr(importlib.import_module(".".join(["jiyi", *modules])), last), path
    for verb in re.findall(r"\bmemory\.([a-z_]+)", USE[name]):
        assert hasattr(jiyi.MemoryManager, verb), verb
    assert not hasattr(jiyi, name)
    refused(AttributeError, f"no attribute '{name}'; use ", getattr, jiyi, name)


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
    code = f"from jiyi import {folder}; print({folder}.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == f"jiyi.{folder}", done.stderr


@pytest.mark.slow
def test_they_are_read_only_when_one_is_missing():
    code = "import sys, jiyi; jiyi.open, jiyi.Agent; print('jiyi.names' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
