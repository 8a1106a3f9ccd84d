"""From settings to a language model and a reranker: which, where, and with whose key."""

import importlib.util
import json
import re
import sys

import pytest
from refusing import refused
from scripted_chat import ScriptedChat, answer
from scripted_endpoint import Reply
from scripted_rerank import ScriptedRerank
from tables import literals, read_tables

from jiyi.errors import MissingExtra, SettingsError
from jiyi.llm import OpenAILLM
from jiyi.rerank import CrossEncoderReranker, EndpointReranker, LLMReranker
from jiyi.settings import load_settings
from jiyi.wiring import llm_for, reranker_for
from jiyi.wiring import open as open_memory

ASK = [{"role": "user", "content": "hello"}]


@pytest.fixture(autouse=True)
def outside(monkeypatch):
    """A key that belongs to OpenAI lies in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")


def test_without_settings_there_is_neither_and_a_language_model_may_rerank():
    assert llm_for(load_settings()) is None
    assert reranker_for(load_settings()) is None
    llm = llm_for(load_settings(llm_model="m"))
    reranker = reranker_for(load_settings(reranker="llm", language="zh"), llm)
    assert isinstance(reranker, LLMReranker)
    assert reranker.name == "llm:openai:m"


def test_a_language_model_is_asked_where_and_as_the_settings_say():
    with ScriptedChat() as server:
        settings = load_settings(
            llm_model="qwen3", llm_base_url=server.url, llm_api_key="sk-own", llm_seconds=9
        )
        llm = llm_for(settings)
        assert isinstance(llm, OpenAILLM)
        assert llm.complete(ASK).text == "ok"
        llm.close()
        other = llm_for(load_settings(llm_model="qwen3", llm_base_url=server.url))
        other.complete(ASK)
        other.close()
    assert server.asked[0]["model"] == "qwen3"
    assert server.keys == ["Bearer sk-own", "Bearer sk-of-openai"]
    assert "timeout=9" in repr(llm._endpoint)


def test_an_endpoint_that_reranks_gets_its_own_key_or_none():
    with ScriptedRerank() as server:
        for key in (None, "sk-own"):
            settings = load_settings(
                reranker="endpoint", reranker_model="bge", reranker_base_url=server.url, reranker_api_key=key
            )
            reranker = reranker_for(settings)
            assert isinstance(reranker, EndpointReranker)
            assert reranker.score("q", ["a", "bb"]) == [1.0, 2.0]
    assert (server.asked[0]["model"], server.keys) == ("bge", [None, "Bearer sk-own"])


@pytest.mark.parametrize(("settings", "says"), literals(read_tables(__file__)["settings, what is missing"]))
def test_what_is_missing_is_named(settings, says):
    refused(SettingsError, says, reranker_for, load_settings(**settings))


def test_a_cross_encoder_needs_its_extra(monkeypatch):
    settings = load_settings(reranker="cross-encoder", reranker_model="BAAI/bge-reranker-v2-m3")
    if importlib.util.find_spec("sentence_transformers"):
        assert isinstance(reranker_for(settings), CrossEncoderReranker)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    refused(MissingExtra, r'pip install "jiyi\[cross-encoder\]"', reranker_for, settings)


def judged(asked):
    """What a model would say that finds a passage the better the later it comes."""
    shown = re.findall(r"^\[(\d+)\]$", asked["messages"][0]["content"], re.MULTILINE)
    return answer(json.dumps({number: int(number) % 11 for number in shown}))


class Judge(ScriptedChat):
    honest = staticmethod(judged)


class Longest:
    name = "longest"

    def score(self, query, texts):
        return [float(len(text)) for text in texts]


def filled(open_memory, **options):
    memory = open_memory(**options)
    for text in ("disk", "disk full", "disk full on web-7"):
        memory.save_message("s", role="user", content=text)
    memory.flush()
    return memory


def order(memory):
    return [hit.text for hit in memory.search("disk")]


LONGEST_FIRST = ["disk full on web-7", "disk full", "disk"]


def test_an_own_reranker_orders_what_a_memory_finds(open_memory):
    memory = filled(open_memory, reranker=Longest())
    assert order(memory) == LONGEST_FIRST
    assert memory.search("disk")[0].why["reranker"] == len("disk full on web-7")
    assert memory.search("disk").notes == ()
    assert "disk full on web-7" in memory.build_context("new", "disk?", 500).markdown


def test_without_one_nobody_is_asked(open_memory):
    with Judge() as server:
        memory = filled(open_memory, llm="m", llm_base_url=server.url)
        assert order(memory)[0] == "disk"
        assert "reranker" not in memory.search("disk")[0].why
        assert server.asked == []


@pytest.fixture
def endpoint(monkeypatch):
    """The environment names a reranker at an endpoint."""
    with ScriptedRerank() as server:
        for name, value in {"": "endpoint", "_MODEL": "bge", "_BASE_URL": server.url}.items():
            monkeypatch.setenv(f"JIYI_RERANKER{name}", value)
        yield server


def test_the_settings_name_a_reranker(open_memory, endpoint):
    assert order(filled(open_memory)) == LONGEST_FIRST
    assert endpoint.asked[0]["query"] == "disk"


def test_an_own_reranker_wins_over_the_settings(open_memory, endpoint):
    assert order(filled(open_memory, reranker=Longest())) == LONGEST_FIRST
    assert endpoint.asked == []


def test_a_reranker_that_is_too_slow_is_waited_for_as_long_as_the_settings_say(open_memory, endpoint):
    memory = filled(open_memory, reranker_seconds=0.2)
    endpoint.replies.append(Reply(silent=True))
    found = memory.search("disk")
    assert found[0].text == "disk"
    assert "0.2 s" in found.notes[0]


def test_an_own_language_model_reranks_and_stays_open(open_memory, llm_at, monkeypatch):
    monkeypatch.setenv("JIYI_RERANKER", "llm")
    with Judge() as server, Judge() as other:
        llm = llm_at(server.url)
        memory = filled(open_memory, llm=llm, llm_model="x", llm_base_url=other.url)
        first = memory.search("disk")
        assert (first[0].why["reranker"], first.notes) == (3, ())
        memory.close()
        assert (len(server.asked), len(other.asked)) == (1, 0)
        assert llm.complete(ASK).text == "{}"


def test_the_language_model_of_the_settings_reranks(open_memory, monkeypatch):
    monkeypatch.setenv("JIYI_RERANKER", "llm")
    with Judge() as server:
        memory = filled(open_memory, llm_model="m", llm_base_url=server.url)
        assert memory.search("disk")[0].why["reranker"] == 3
        assert [asked["model"] for asked in server.asked] == ["m"]


def test_a_reranker_without_what_it_needs_is_refused_before_a_file_is_made(open_memory, path, monkeypatch):
    monkeypatch.setenv("JIYI_RERANKER", "llm")
    refused(SettingsError, "llm_model", open_memory)
    assert not path.exists()


def test_a_part_can_be_named_as_its_setting_is(tmp_path, monkeypatch):
    monkeypatch.setenv("JIYI_RERANKER", "endpoint")
    with open_memory(
        tmp_path / "a.db", user_id="ana", embedder="e5", reranker="none", background=False
    ) as memory:
        memory.save_message("s", role="user", content="the disk of web-7 is full")
        hits = memory.search("disk")
    assert "reranker" not in hits[0].why
    with pytest.raises(SettingsError, match="reranker=llm needs a language model"):
        open_memory(tmp_path / "a.db", reranker="llm")
    refused(SettingsError, "embedder", open_memory, tmp_path / "a.db", embedder="word2vec")
