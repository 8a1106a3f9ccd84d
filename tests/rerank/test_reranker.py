"""What every reranker promises, run on each of them; see `jiyi.rerank.Reranker`."""

import json
import re
import threading
import time
from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np
import pytest
from at_once import at_once
from refusing import refused
from scripted_chat import ScriptedChat, answer
from scripted_endpoint import Reply
from scripted_rerank import ScriptedRerank
from tables import literals, read_tables

from jiyi.breaker import Breaker
from jiyi.embeddings import Endpoint
from jiyi.errors import InputError, RerankError
from jiyi.llm import OpenAILLM
from jiyi.rerank import EndpointReranker, LLMReranker, Reranked, Reranker, rerank

TABLES = read_tables(__file__)
ODD = [*literals(TABLES["odd texts"]), "nginx 502 重启 " * 10_000]


class Judge(ScriptedChat):
    """Gives each passage as many points as it shows lines, ten at most."""

    @staticmethod
    def honest(asked):
        found = re.findall(r"^\[(\d+)\]\n((?:^>.*\n?)+)", asked["messages"][0]["content"], re.MULTILINE)
        return answer(json.dumps({number: min(text.count(">"), 10) for number, text in found}))


@pytest.fixture(scope="module", params=["endpoint", "llm"])
def reranker(request):
    if request.param == "endpoint":
        endpoint = Endpoint(base_url=request.getfixturevalue("local_reranker"), api_key="", timeout=60)
        yield EndpointReranker("smollm2", endpoint=endpoint, time_limit=120, max_chars=100)
        return
    with Judge() as server:
        llm = OpenAILLM("m", endpoint=Endpoint(base_url=server.url, api_key=""))
        yield LLMReranker(llm, batch_size=3)
        llm.close()


def test_it_follows_the_protocol_gives_nothing_scores_that_are_taken_and_names_misuse(reranker):
    assert isinstance(reranker, Reranker)
    assert reranker.name == reranker.name
    assert reranker.name.strip()
    assert list(reranker.score("q", [])) == []
    found = rerank(reranker, "q", ["a\nb", "c"], time_limit=60)
    assert found.note == ""
    assert len(found.scores or ()) == 2
    refused(InputError, "list of texts", reranker.score, "q", "one string")
    refused(InputError, "int", reranker.score, "q", [502])


@pytest.mark.slow
def test_one_finite_score_per_text_in_their_order(reranker):
    texts = ["磁盘满了\n第二行", "lunch is at noon", "the disk is full", "磁盘满了\n第二行"]
    scores = reranker.score("磁盘满了怎么办", texts)
    assert len(scores) == len(texts)
    assert all(type(score) is float and isfinite(score) for score in scores)
    assert scores[0] == pytest.approx(scores[3], abs=1e-3)
    assert len({round(score, 6) for score in scores}) > 1
    assert list(reranker.score("磁盘满了怎么办", texts[::-1])) == pytest.approx(list(scores[::-1]), abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("text", ODD, ids=lambda text: ascii(text[:20]))
def test_any_text_is_accepted(reranker, text):
    assert len(reranker.score("port?", [text, "pay-gw listens on 9443"])) == 2
    assert len(reranker.score(text, ["pay-gw listens on 9443"])) == 1


@pytest.mark.slow
def test_several_threads_get_what_one_gets(reranker):
    lists = [["a line\n" * (i + 1), "one"] for i in range(4)]
    expected = [reranker.score("q", texts) for texts in lists]
    together = at_once(lambda texts: reranker.score("q", texts), lists)
    for found, scores in zip(together, expected, strict=True):
        assert list(found) == pytest.approx(list(scores), abs=1e-3)


def test_a_real_server_without_a_reranker_says_so_once(local_llm):
    reranker = EndpointReranker("smollm2", endpoint=Endpoint(base_url=local_llm, api_key="", retries=9))
    refused(RerankError, r"501 .*does not support reranking", reranker.score, "q", ["a"])


class Own:
    """A reranker that answers with what it is given, or raises it."""

    name = "own"

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.calls = 0

    def score(self, query: str, texts: Sequence[str]) -> Any:
        self.calls += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(texts) if callable(self.answer) else self.answer


def test_scores_come_back_as_plain_numbers_and_nothing_to_rank_asks_nobody():
    assert rerank(Own([1, 2.5]), "q", ["a", "b"], time_limit=5) == Reranked(scores=(1.0, 2.5))
    found = rerank(Own(np.array([1, 2], np.float32)), "q", ("a", "b"), time_limit=5)
    assert found == Reranked(scores=(1.0, 2.0), note="")
    assert {type(score) for score in found.scores or ()} == {float}
    reranker = Own([])
    assert rerank(reranker, "q", [], time_limit=5) == Reranked(scores=())
    assert reranker.calls == 0


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        *literals(TABLES["answers that are nonsense, why"]),
        ([1.0, float("nan")], "no finite number"),
        (KeyError("oops"), "KeyError: 'oops'"),
        (OverflowError(), "OverflowError"),
    ],
)
def test_nonsense_and_errors_leave_a_note(answer, why):
    found = rerank(Own(answer), "q", ["a", "b"], time_limit=5)
    assert found.scores is None
    assert found.note.startswith("not reranked, own ")
    assert why in found.note


def test_an_endpoint_that_fails_leaves_its_words():
    with ScriptedRerank(Reply(status=401, body={"error": "bad key"})) as server:
        reranker = EndpointReranker("m", endpoint=Endpoint(base_url=server.url, api_key=""))
        found = rerank(reranker, "q", ["a"], time_limit=5)
        assert found.scores is None
        assert found.note.startswith("not reranked, endpoint:m failed: ")
        assert "check api_key" in found.note
        assert rerank(reranker, "q", ["a", "bb"], time_limit=5) == Reranked(scores=(1.0, 2.0))


def test_a_slow_endpoint_costs_the_time_limit_and_no_more():
    with ScriptedRerank(Reply(silent=True)) as server:
        reranker = EndpointReranker("m", endpoint=Endpoint(base_url=server.url, api_key=""))
        started = time.monotonic()
        found = rerank(reranker, "q", ["a"], time_limit=0.3)
        assert time.monotonic() - started < 8
    assert found == Reranked(
        scores=None,
        note="not reranked, endpoint:m failed: it gave no answer in time: it took longer than 0.3 s",
    )


@pytest.mark.slow
def test_a_stuck_reranker_is_skipped_at_once_and_its_threads_do_not_pile_up():
    gate = threading.Event()
    reranker, breaker = Own(lambda texts: gate.wait(30) and [1.0] * len(texts)), Breaker()
    before = set(threading.enumerate())  # those of earlier tests may end meanwhile
    assert "took longer" in rerank(reranker, "q", ["a"], time_limit=0.1, breaker=breaker).note
    started = time.monotonic()
    while time.monotonic() < started + 1.3:  # longer than the first pause: it is tried again, beside these
        asked = time.monotonic()
        assert "took longer" in rerank(reranker, "q", ["a"], time_limit=30, breaker=breaker).note
        assert time.monotonic() - asked < 15
        time.sleep(0.01)
    assert len(set(threading.enumerate()) - before) == 2
    assert reranker.calls == 2
    gate.set()
    deadline = time.monotonic() + 30
    while rerank(reranker, "q", ["a"], time_limit=5, breaker=breaker).scores is None:
        assert time.monotonic() < deadline, "it is asked again once it has come back"
        time.sleep(0.01)


def test_misuse_is_an_error_all_the_same():
    refused(InputError, "list of texts", rerank, Own([1.0]), "q", "one string", time_limit=5)
    reranker = EndpointReranker("m", endpoint=Endpoint(base_url="http://localhost", api_key=""))
    refused(InputError, "int", rerank, reranker, "q", [5], time_limit=5)
