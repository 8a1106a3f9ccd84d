"""Whole evaluations of small files, with the instant embedder and real stores."""

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from refusing import raises, refused
from tables import read_tables

from jiyi import wiring
from jiyi.errors import BadBudget, EmbeddingError, InputError, SettingsError
from jiyi.evaluate import BASELINES, METRICS, evaluate, load_dataset, open_sqlite, opener_for, read_dataset
from jiyi.evaluate.baselines import POLICIES
from jiyi.evaluate.run import MeasuredEmbedder
from jiyi.evaluate.systems import MemorySystem, Ranking
from jiyi.manager import MemoryManager
from jiyi.testing import HashEmbedder

HERE = Path(__file__).parent
EN, ZH = HERE / "small-en.json", HERE / "small-zh.json"

TABLES = read_tables(__file__)


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


def run(dataset, **options):
    return evaluate(dataset, **({"embedder": HashEmbedder()} | options)).runs


def talk(said, questions=()):
    """Return a dataset of one conversation, a session of one message for each text."""
    return of_sessions([session(i, {f"m{i}": text}) for i, text in enumerate(said)], questions)


def session(number, said):
    """A session of one day, in which texts were said, by the ids of their messages."""
    messages = [{"id": id_, "role": "user", "content": text} for id_, text in said.items()]
    started = f"2026-01-{1 + number % 28:02}T00:00:00"
    return {"session_id": f"s{number}", "started_at": started, "messages": messages}


def of_sessions(sessions, questions):
    asked = [{"id": f"q{i}", "asked_at": "2026-02-01T00:00:00", **one} for i, one in enumerate(questions)]
    conversation = {"conversation_id": "c", "sessions": sessions, "questions": asked}
    return read_dataset({"conversations": [conversation]})


@pytest.mark.parametrize("file", [EN, ZH], ids=["en", "zh"])
def test_a_run_of_everything(file):
    dataset = load_dataset(file)
    told = evaluate(dataset, embedder=HashEmbedder(), budgets=[200, 2000, 200], baselines=BASELINES).as_dict()
    assert (list(told), told["version"]) == (["version", "runs"], 1)
    assert [one["system"] for one in told["runs"]] == ["jiyi", *BASELINES]
    for one in told["runs"]:
        assert list(one) == TABLES["keys of a run"]
        assert list(one["metrics"]) == list(METRICS)
        assert list(one["evidence_in_context"]) == ["200", "2000"]
        assert list(one["latency_ms"]) == TABLES["keys of a latency"]
        assert list(one["ingest"]) == ["messages", "seconds_text", "seconds_vectors"]
        assert set(one["by_category"]) == {question.category for question in dataset.questions}
        assert all(list(some) == list(METRICS) for some in one["by_category"].values())
        assert (one["file"], one["language"]) == (file.name, dataset.language)
        assert one["questions"] == len(dataset.questions)
        assert one["ingest"]["messages"] == dataset.messages
        assert one["evidence_in_context"]["2000"] == 1 or one["system"] in ("bm25", *POLICIES)
        assert one["latency_ms"]["context_p95"] > 0
        if one["system"] in POLICIES:
            assert set(one["metrics"].values()) == {None}
            assert one["latency_ms"]["search_p50"] is None
            assert (one["backend"], one["embedder"], one["ingest"]["seconds_vectors"]) == (None, None, None)
            continue
        assert one["latency_ms"]["search_p50"] > 0
        assert one["metrics"]["session_recall@5"] == 1 or one["system"] == "bm25"
    jiyi, bm25, dense, recent, full = told["runs"][:5]
    assert (jiyi["backend"], jiyi["embedder"]) == ("sqlite", "hash:64")
    assert (bm25["backend"], bm25["embedder"]) == (None, None)
    assert (dense["backend"], dense["embedder"]) == (None, "hash:64")
    assert jiyi["metrics"]["recall@10"] == recent["metrics"]["recall@10"] == 1
    assert full["metrics"]["recall@20"] == 1
    assert 0 < jiyi["ingest"]["seconds_text"] < jiyi["ingest"]["seconds_vectors"]
    assert jiyi["latency_ms"]["embed_p50"] > 0
    assert dense["latency_ms"]["embed_p50"] > 0
    assert [recent["latency_ms"]["embed_p50"], recent["ingest"]["seconds_vectors"]] == [None, None]


def test_orders_of_time_by_hand():
    [_, recent, full] = run(load_dataset(ZH), baselines=["recent", "full"])
    # Newest first 乙2 乙1 甲3 甲2 甲1: the evidence 乙1 is second, 甲3 third.
    assert recent.scores.metrics["mrr"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert recent.scores.metrics["current_ok"] == 1
    assert full.scores.metrics["mrr"] == pytest.approx((1 / 4 + 1 / 3) / 2)
    assert full.scores.metrics["current_ok"] == 0
    assert recent.by_category["history"].metrics["mrr"] == pytest.approx(1 / 3)
    assert recent.by_category["history"].questions == 1
    assert recent.by_category["abstain"].metrics == dict.fromkeys(METRICS)


def test_no_budget_shows_nothing_an_excerpt_counts_and_a_question_too_large_does_not():
    [jiyi] = run(load_dataset(EN))
    assert jiyi.evidence_in_context == {}
    assert jiyi.as_dict()["latency_ms"]["context_p50"] is None
    dataset = talk(
        ["filler words here " * 300 + "the code is maple-77. " + "more filler words " * 300],
        [{"question": "what is the code maple-77?", "evidence": ["m0"]}],
    )
    [jiyi] = run(dataset, budgets=[400])
    assert jiyi.evidence_in_context == {400: 1.0}
    dataset = talk(
        ["nginx"],
        [{"question": "nginx?", "evidence": ["m0"]}, {"question": "nginx? " * 200, "evidence": ["m0"]}],
    )
    for one in run(dataset, budgets=[100], baselines=["bm25"]):
        assert one.evidence_in_context == {100: 0.5}
        assert "100 tokens are too few for 1 of the questions" in one.notes[0]
    assert evaluate(dataset, embedder=HashEmbedder()).runs[0].notes == ()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_figures_whatever_else_runs():
    dataset = talk(["the same words"] * 40, [{"question": "the same words?", "evidence": ["m7"]}])

    def figures(seed, *baselines, **options):
        return [one.scores for one in run(dataset, seed=seed, baselines=baselines, **options)]

    jiyi, bm25 = figures(3, "bm25")
    assert [jiyi] == figures(3)
    assert [jiyi, bm25] == figures(3, "full", "bm25", budgets=[500])[::2]
    places = {figures(seed, "bm25")[1].metrics["mrr"] for seed in range(12)}
    assert len(places) > 1  # the place among equals is chance


def spying(look):
    """Open memories that are looked at before they are closed."""

    @contextmanager
    def opened(embedder):
        with open_sqlite(embedder) as memory:
            yield memory
            look(memory)

    return opened


def test_ids_are_hidden_and_the_rest_is_kept():
    dataset, seen = load_dataset(ZH), []

    def note(memory):
        for session in memory.sessions():
            seen.extend(memory.session_messages(session.id))

    run(dataset, open=spying(note), backend="spied")
    messages = dataset.conversations[0].messages
    assert sorted(m.content for m in seen) == sorted(m.content for m in messages)
    by_text = {m.content: m for m in seen}
    for message in messages:
        kept = by_text[message.content]
        assert (kept.role, kept.name, kept.created_at) == (message.role, message.name, message.created_at)
        assert kept.id != message.id
        assert kept.scope.session_id not in ("周一", "周二")
    assert len({m.scope.session_id for m in seen}) == 2


def test_each_conversation_has_a_memory_and_a_user_of_its_own():
    counts = {}

    def note(memory):
        counts[memory.sessions()[0].scope.user_id] = memory.stats()["message"]

    [jiyi] = run(load_dataset(EN), open=spying(note), backend="spied")
    assert jiyi.backend == "spied"
    assert list(counts.values()) == [6, 2]


def test_questions_are_asked_as_of_their_moment(monkeypatch):
    moments = []

    def spied(verb):
        def call(self, *args, **options):
            moments.append(options["asked_at"])
            return verb(self, *args, **options)

        return call

    for name in ("search", "build_context"):
        monkeypatch.setattr(MemoryManager, name, spied(getattr(MemoryManager, name)))
    dataset = load_dataset(ZH)
    run(dataset, budgets=[500])
    assert set(moments) == {question.asked_at for question in dataset.questions}
    assert len(moments) >= 5  # three searches, two windows


def test_what_the_memory_says_of_nothing_relevant_is_measured(monkeypatch):
    search = MemoryManager.search

    def unsure(self, query, **options):
        return replace(search(self, query, **options), nothing_relevant=0.9 if "dentist" in query else 0.2)

    monkeypatch.setattr(MemoryManager, "search", unsure)
    jiyi, bm25 = run(load_dataset(EN), baselines=["bm25"])
    assert jiyi.scores.metrics["abstention_auroc"] == 1
    assert jiyi.by_category["abstain"].metrics["abstention_auroc"] is None
    assert bm25.scores.metrics["abstention_auroc"] is None


def test_one_piece_of_evidence_is_enough_where_the_file_says_so():
    questions = [{"question": "alpha?", "evidence": ["m0", "m1"]}]
    said = ["alpha", "omega " * 300, *["alpha beta"] * 30]
    for mode, share in (("all", 0.5), ("any", 1.0)):
        dataset = talk(said, [{**one, "evidence_mode": mode} for one in questions])
        [_, bm25] = run(dataset, baselines=["bm25"], budgets=[5000])
        assert (bm25.scores.metrics["recall@20"], bm25.evidence_in_context[5000]) == (share, share)


def test_sessions_are_looked_for_until_there_are_five():
    # Sixty messages in one session outrank the session that holds the evidence.
    crowd = session(0, {f"c{i}": "nginx" for i in range(60)})
    other = session(1, {"e": "nginx and much else that was said"})
    dataset = of_sessions([crowd, other], [{"question": "nginx", "evidence": ["e"]}])
    jiyi, bm25, dense = run(dataset, baselines=["bm25", "dense"])
    assert bm25.scores.metrics["recall@20"] == dense.scores.metrics["recall@20"] == 0
    for one in (jiyi, bm25, dense):
        assert one.scores.metrics["session_recall@5"] == 1, one.system


def test_progress_ends_where_it_said():
    told = []
    dataset = load_dataset(EN)
    run(dataset, baselines=["bm25", "dense"], progress=lambda *step: told.append(step))
    for what, total in (("messages", 2 * dataset.messages), ("questions", 3 * len(dataset.questions))):
        steps = [(done, of) for name, done, of in told if name == what]
        assert [of for _, of in steps] == [total] * len(steps)
        assert steps == sorted(steps)
        assert steps[-1][0] == total


def test_a_failing_embedder_and_an_interruption_go_through_and_bad_options_are_named():
    class Failing(HashEmbedder):
        kinds = ("query", "passage")

        def embed(self, texts, kind):
            if kind in self.kinds:
                raise EmbeddingError("out of order")
            return super().embed(texts, kind)

    refused(EmbeddingError, "out of order", run, load_dataset(EN), embedder=Failing())
    halfway = Failing()
    halfway.kinds = ("query",)
    [jiyi] = run(load_dataset(EN), embedder=halfway)
    assert any("out of order" in note for note in jiyi.notes)

    def interrupt(what, done, total):
        raise KeyboardInterrupt

    raises(KeyboardInterrupt, run, load_dataset(EN), progress=interrupt)
    dataset = load_dataset(EN)
    refused(InputError, "no baseline 'google'", run, dataset, baselines=["google"])
    refused(BadBudget, "max_input_tokens=0", run, dataset, budgets=[0])


def test_the_settings_embedder_is_used_and_closed(monkeypatch):
    class Closing(HashEmbedder):
        closed = 0

        def close(self):
            Closing.closed += 1

    monkeypatch.setattr(wiring, "embedder_for", lambda settings: Closing(dims=32))
    [jiyi] = evaluate(load_dataset(EN)).runs
    assert jiyi.embedder == "hash:32"
    assert Closing.closed == 1


@pytest.mark.parametrize("backend", ["mysql://ana:secret@db/x", "mysql", "", "sqlite:///x.db", "x.db"])
def test_backends_that_are_not_there(backend):
    with pytest.raises(SettingsError, match=r"no backend|names no backend") as refused:
        opener_for(backend)
    assert "secret" not in str(refused.value)


def test_a_system_is_anything_that_ranks(open_memory):
    memory = open_memory()
    dataset = load_dataset(ZH)
    system = MemorySystem(memory, Random(0))
    system.load(dataset.conversations[0])
    question = dataset.questions[1]
    found = system.rank(question, 3)
    assert isinstance(found, Ranking)
    assert "甲3" in found.ids  # by its words, before there is a vector
    system.finish(lambda done: None)
    assert memory.stats()["vectors_pending"] == 0
    assert "甲3" in system.window(question, 1000).ids


def test_what_a_query_took_is_known_again():
    measured = MeasuredEmbedder(HashEmbedder())
    start = measured.read()
    measured.embed(["question"], "query")
    first = measured.read() - start
    assert 0 < first[1] <= first[0]
    before = measured.read()
    measured.embed(["question"], "query")
    assert (measured.read() - before)[1] == pytest.approx(first[1])
    before = measured.read()
    measured.embed(["question"], "passage")
    assert (measured.read() - before)[1] == 0
    assert not start.any()
