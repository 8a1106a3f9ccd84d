"""What every store promises about words; see `jiyi.storage.Store.match`."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import ANA, AWKWARD, by_words, episode, knowledge, message
from tables import read_tables

from jiyi.records import Query, new_id
from jiyi.text import query_terms


def found(store, text, **parts):
    return by_words(store, Query(scope=ANA, text=text, **parts))


def test_any_word_is_enough_in_chinese_and_english(store):
    said = {
        "zh": "生产环境的 nginx 容器又报 502 了，重启后恢复",
        "en": "The upstream timed out after the certificate expired",
        "mixed": "kubectl rollout restart deployment/web 之后磁盘满了",
    }
    store.put([message(text, id=key) for key, text in said.items()])
    for word, key in read_tables(__file__)["words, and whose they are"]:
        assert found(store, word) == [key], word
    assert set(found(store, "证书 certificate 磁盘 502")) == {"zh", "en", "mixed"}


@pytest.mark.parametrize("text", ["", " \n", "!?…", "\0", "\ud800", '"', "AND", "NOT OR", "*", "owner:u1"])
def test_no_text_breaks_the_search(store, text):
    store.put([message("plain words", id="p")])
    assert found(store, text) == []


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD.keys())
def test_awkward_texts_are_found_by_their_words(store, text):
    store.put([message("something else entirely", id="other"), message(text, id="it")])
    assert found(store, text) == (["it"] if query_terms(text) else [])


@pytest.mark.slow
@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=60)
@given(st.text(max_size=60))
def test_every_text_is_found_by_itself(store, text):
    key = new_id()
    store.put([message(text, id=key)])
    assert (key in found(store, text)) == bool(query_terms(text))
    store.delete(Query(scope=ANA, kinds=("message",), ids=(key,)))


def test_every_searchable_kind_is_found_by_all_its_words(store):
    past = episode("certificate expired", outcome_summary="renewed it", target="web-7", tags=("urgent",))
    lesson = knowledge("renew early", topic="certificates", key_points=("certbot timer",))
    call = {"id": "c", "type": "function", "function": {"name": "certbot", "arguments": '{"force": true}'}}
    asked, like = {"role": "assistant", "content": None, "tool_calls": [call]}, message()
    said = type(like).from_openai(asked, scope=like.scope, created_at=like.created_at)
    store.put([past, lesson, said])
    assert set(found(store, "certificate")) == {past.id, lesson.id}
    assert set(found(store, "certbot")) == {said.id, lesson.id}
    assert found(store, "web-7") == found(store, "urgent") == [past.id]
    assert found(store, "certbot", kinds=("knowledge",)) == [lesson.id]
    assert found(store, "certbot", kinds=("task",)) == []


@pytest.mark.slow
def test_a_question_of_a_megabyte_is_answered(store):
    store.put([message("the very first needle", id="first"), message("and the last haystack", id="last")])
    filler = " ".join(f"word{i}" for i in range(100_000))
    assert set(found(store, f"needle {filler} haystack")) == {"first", "last"}
