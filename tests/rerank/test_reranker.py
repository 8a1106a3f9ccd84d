"""What every reranker promises, run on each of them; see `jiyi.rerank.Reranker`."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import isfinite

import pytest
from scripted_chat import ScriptedChat, answer

from jiyi.embeddings import Endpoint
from jiyi.errors import InputError, RerankError
from jiyi.llm import OpenAILLM
from jiyi.rerank import EndpointReranker, LLMReranker, Reranker, rerank

ODD = {
    "empty": "",
    "blank": " \n\t ",
    "nul": "before\0after",
    "lone surrogate": "broken \ud83d text",
    "emoji": "👩‍👩‍👧‍👦🎉 done",
    "controls": "\x01\x1b[31mred\x7f\u202e",
    "names of special tokens": "<|im_end|>\n<|im_start|>system\n[SEP]",
    "100,000 characters": "nginx 502 重启 " * 10_000,
}


class Judge(ScriptedChat):
    """Gives each passage as many points as it shows lines, ten at most."""

    @staticmethod
    def honest(asked):
        prompt = asked["messages"][0]["content"]
        found = re.findall(r"^\[(\d+)\]\n((?:^>.*\n?)+)", prompt, re.MULTILINE)
        return answer(json.dumps({number: min(text.count(">"), 10) for number, text in found}))


@pytest.fixture(scope="module", params=["endpoint", "llm"])
def reranker(request: pytest.FixtureRequest) -> Iterator[Reranker]:
    if request.param == "endpoint":
        url = request.getfixturevalue("local_reranker")
        endpoint = Endpoint(base_url=url, api_key="", timeout=60)
        yield EndpointReranker("smollm2", endpoint=endpoint, time_limit=120, max_chars=100)
        return
    with Judge() as server:
        llm = OpenAILLM("m", endpoint=Endpoint(base_url=server.url, api_key=""))
        yield LLMReranker(llm, batch_size=3)
        llm.close()


def test_follows_the_protocol(reranker: Reranker) -> None:
    assert isinstance(reranker, Reranker)
    assert reranker.name == reranker.name
    assert reranker.name.strip()


@pytest.mark.slow
def test_one_finite_score_per_text_in_their_order(reranker: Reranker) -> None:
    texts = ["磁盘满了\n第二行", "lunch is at noon", "the disk is full", "磁盘满了\n第二行"]
    scores = reranker.score("磁盘满了怎么办", texts)
    assert len(scores) == len(texts)
    assert all(type(score) is float and isfinite(score) for score in scores)
    assert scores[0] == pytest.approx(scores[3], abs=1e-3)
    assert len({round(score, 6) for score in scores}) > 1
    backwards = reranker.score("磁盘满了怎么办", texts[::-1])
    assert list(backwards) == pytest.approx(list(scores[::-1]), abs=1e-3)


def test_no_texts_give_no_scores(reranker: Reranker) -> None:
    assert list(reranker.score("q", [])) == []


@pytest.mark.slow
@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_any_text_is_accepted(reranker: Reranker, text: str) -> None:
    assert len(reranker.score("port?", [text, "pay-gw listens on 9443"])) == 2
    assert len(reranker.score(text, ["pay-gw listens on 9443"])) == 1


@pytest.mark.slow
def test_several_threads_get_what_one_gets(reranker: Reranker) -> None:
    lists = [["a line\n" * (i + 1), "one"] for i in range(4)]
    expected = [reranker.score("q", texts) for texts in lists]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda texts: reranker.score("q", texts), lists))
    for found, scores in zip(together, expected, strict=True):
        assert list(found) == pytest.approx(list(scores), abs=1e-3)


def test_its_scores_are_taken(reranker: Reranker) -> None:
    found = rerank(reranker, "q", ["a\nb", "c"], time_limit=60)
    assert found.note == ""
    assert len(found.scores or ()) == 2


def test_misuse_is_named(reranker: Reranker) -> None:
    with pytest.raises(InputError, match="list of texts"):
        reranker.score("q", "one string")
    with pytest.raises(InputError, match="int"):
        reranker.score("q", [502])  # type: ignore[list-item]


def test_a_real_server_without_a_reranker_says_so_once(local_llm: str) -> None:
    reranker = EndpointReranker("smollm2", endpoint=Endpoint(base_url=local_llm, api_key="", retries=9))
    with pytest.raises(RerankError, match=r"501 .*does not support reranking"):
        reranker.score("q", ["a"])
