"""A second look at the first candidates: it reorders them, or leaves them as they were and says so."""

import pytest
from embedders import unreachable
from recalling import search, texts
from samples import ANA, episode, knowledge, message

from jiyi.errors import RerankError
from jiyi.long_term import Recall, Second
from jiyi.records import Query


class Own:
    """A reranker that scores by a function of the text, and notes what it was shown."""

    name = "own"

    def __init__(self, score_of):
        self.score_of = score_of
        self.shown = []

    def score(self, query, texts):
        self.shown.append((query, list(texts)))
        return [self.score_of(text) for text in texts]


@pytest.fixture
def reports(store, keep):
    """Forty reports, of which the higher numbers are newer, and an episode and knowledge beside."""
    store.put([message(f"disk report number {i}", at=i, id=f"{i}") for i in range(40)])
    keep([episode("disk alarm", id="e"), knowledge("disks fail", id="k")])


@pytest.fixture
def reranked(store, vectors, embedder):
    def make(reranker, **options):
        return Recall(store, vectors, embedder, second=Second(reranker=reranker, **options))

    return make


def number_of(text):
    return float(text.split()[-1]) if text[-1].isdigit() else -1.0


def test_a_reranker_orders_the_first_candidates(reports, recall, reranked):
    plain = search(recall, "disk report", limit=10)
    own = Own(lambda text: -number_of(text))
    found = search(reranked(own), "disk report", limit=10)
    ((question, shown),) = own.shown
    assert question == "disk report"
    assert set(texts(plain)) <= set(shown)
    assert texts(found) == sorted(shown, key=number_of)[:10]
    assert texts(found) != texts(plain)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert found.notes == ()
    assert 0 <= found.nothing_relevant <= 1


@pytest.mark.parametrize("limit", [1, 5, 12])
def test_at_least_three_times_the_limit_are_looked_at(reports, reranked, limit):
    own = Own(len)
    found = search(reranked(own), "disk report", limit=limit, kinds=("message",))
    assert len(own.shown[0][1]) >= 3 * limit
    assert (len(set(own.shown[0][1])), len(found)) == (len(own.shown[0][1]), limit)


def test_each_kind_has_its_candidates_looked_at(reports, reranked):
    own = Own(lambda text: 9.0 if "fail" in text or "alarm" in text else 1.0)
    found = reranked(own).search(Query(scope=ANA, text="disk"), {"message": 2, "knowledge": 1, "episode": 1})
    assert {"e", "k"} == {hit.id for hit in found[:2]}
    assert len(found) == 4
    assert sum("report" in text for text in own.shown[0][1]) >= 6


def test_hits_say_what_the_reranker_gave_and_equal_scores_keep_their_order(reports, recall, reranked):
    for hit in search(reranked(Own(lambda text: number_of(text) / 10)), "disk report", limit=5):
        assert hit.score == hit.why["reranker"] == number_of(hit.text) / 10
        assert hit.why["first_by_words"] > 0
    assert texts(search(reranked(Own(lambda _: 0.5)), "disk report")) == texts(search(recall, "disk report"))


def test_the_first_candidates_come_with_what_was_said_around_them(reports, reranked):
    near_20 = Own(lambda text: -abs(number_of(text) - 20))
    (hit,) = search(reranked(near_20), "disk report 20", limit=1, around=1)
    assert (hit.id, [m.id for m in hit.around]) == ("20", ["19", "21"])


def raises(error):
    def score_of(text):
        raise error

    return score_of


@pytest.mark.parametrize(
    ("score_of", "says"),
    [
        (raises(RerankError("the model is not there")), "the model is not there"),
        (raises(ZeroDivisionError("a bug in somebody's reranker")), "ZeroDivisionError"),
        (lambda text: float("nan"), "no finite number"),
        (lambda text: "high", "ValueError"),
        (lambda text: None, "TypeError"),
    ],
)
def test_a_failing_or_nonsensical_reranker_changes_nothing(reports, keep, recall, reranked, score_of, says):
    keep([message("disk report number 39", at=99, id="repeat")])
    plain = search(recall, "disk report", limit=50)
    found = search(reranked(Own(score_of)), "disk report", limit=50)
    assert [(hit.id, hit.score, hit.why) for hit in found] == [(hit.id, hit.score, hit.why) for hit in plain]
    (note,) = found.notes
    assert note.startswith("not reranked, own ")
    assert says in note


def test_where_nothing_is_found_nobody_is_asked(recall, reranked):
    own = Own(len)
    assert (list(search(reranked(own), "disk")), own.shown) == ([], [])


def test_repeats_stand_behind_here_too(store, keep, reranked):
    store.put([message("the disk is full", id=f"r{i}", at=i) for i in range(3)])
    keep([message("clean the disk", id="c")])
    found = search(reranked(Own(lambda text: 1.0 if "full" in text else 0.0)), "disk")
    assert ([hit.text for hit in found[:2]], len(found)) == (["the disk is full", "clean the disk"], 4)


def test_a_failing_embedder_and_a_failing_reranker_are_both_told(reports, embedder, reranked):
    embedder.error = unreachable()
    found = search(reranked(Own(raises(RerankError("gone")))), "disk report")
    assert ["text search only" in note or "not reranked" in note for note in found.notes] == [True, True]
    assert len(found) == 10
