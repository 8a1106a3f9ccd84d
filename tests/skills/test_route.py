import json
from pathlib import Path

import numpy as np
import pytest
from at_once import at_once
from refusing import refused
from tables import literals, read_tables

from jiyi.embeddings import E5Embedder
from jiyi.errors import EmbeddingError, InputError
from jiyi.records.skill import Skill
from jiyi.skills import Router, SkillRegistry
from jiyi.testing import HashEmbedder

CASES = json.loads((Path(__file__).parent / "routing.json").read_text("utf-8"))


def registry_of(cases, write_skill):
    for case in cases:
        folder = write_skill(case["name"], head="\n".join(f"{k}: {json.dumps(v)}" for k, v in case.items()))
    return SkillRegistry(folder.parent)


@pytest.fixture
def registry(write_skill):
    return registry_of(CASES["skills"], write_skill)


def right(router, part):
    """Return how many queries found their skill, and how many without one found none."""
    wanted = [want for _, want in CASES[part]]
    found = [next((r.skill.name for r in router.route(query)), None) for query, _ in CASES[part]]
    hits = [(want, got) for want, got in zip(wanted, found, strict=True) if want == got]
    return sum(want is not None for want, _ in hits), sum(want is None for want, _ in hits)


def test_words_alone(registry):
    """24 queries for a skill and 18 for none, in the language of the card; 12 in the other."""
    router = Router(registry)
    fitting, none = right(router, "test")
    assert fitting >= 22
    assert none >= 16
    # Without an embedder only names and numbers reach across languages; rather nothing than a wrong skill.
    found = [(want, router.route(query)) for query, want in CASES["across"]]
    assert all(not routed or routed[0].skill.name == want for want, routed in found)


@pytest.mark.slow
def test_words_and_meaning(registry):
    router = Router(registry, E5Embedder())
    fitting, none = right(router, "test")
    assert fitting >= 21
    assert none >= 16
    across, _ = right(router, "across")
    assert across >= 10


def test_limit_and_order(registry):
    found = Router(registry).route("review the PDF form and the slow database query on docker", limit=5)
    assert len(found) > 1
    assert [r.score for r in found] == sorted((r.score for r in found), reverse=True)
    assert all(r.score >= 1 for r in found)
    assert Router(registry).route("review the PDF form and the slow database query on docker") == found[:1]
    refused(InputError, "limit=0", Router(registry).route, "x", limit=0)


def test_why_names_the_words(registry):
    (found,) = Router(registry).route("certbot cannot renew the certificate")
    assert (found.skill.name, found.why) == ("tls-certificate", "words: certbot, renew, certif")


@pytest.mark.parametrize("query", ["", "  ", "？", "the of and", "🎉"])
def test_nothing_to_go_by_gives_nothing(registry, query):
    assert Router(registry).route(query) == []


@pytest.mark.parametrize(("query", "named"), literals(read_tables(__file__)["a skill named in the query"]))
def test_a_skill_named_in_the_query(registry, query, named):
    found = Router(registry).route(query)
    assert (bool(found) and found[0].why == "named in the query") == named


def test_a_name_of_one_word_needs_a_sign(write_skill):
    registry = registry_of([{"name": "review", "description": "周报。"}], write_skill)
    assert Router(registry).route("/review")[0].why == "named in the query"
    assert Router(registry).route("review")[0].why != "named in the query"


def test_one_skill_alone_is_not_for_everything_and_tags_and_when_to_use_count():
    skill = Skill(name="tea", description="Brews green tea at the right heat.", folder=Path("tea"))
    assert Router([skill]).route("how do I brew green tea?")[0].skill is skill
    assert Router([skill]).route("what is the capital of Portugal?") == []
    assert Router([]).route("anything") == []
    skill = Skill(name="a", description="It.", tags=("kubectl",), when_to_use="每周五发布。", folder=Path())
    assert Router([skill]).route("kubectl?")
    assert Router([skill]).route("周五发布")


def test_a_reload_is_followed(registry, write_skill):
    router = Router(registry, HashEmbedder())
    router.prepare()
    assert router.route("brew green tea") == [] or router.route("brew green tea")[0].skill.name != "tea"
    write_skill("tea", head="name: tea\ndescription: Brews green tea.")
    registry.reload()
    assert router.route("brew green tea")[0].skill.name == "tea"


class Scripted(HashEmbedder):
    """Fails where told, and remembers what it was asked to embed."""

    def __init__(self):
        super().__init__()
        self.asked, self.broken = [], False

    def embed(self, texts, kind):
        if self.broken:
            raise EmbeddingError("the model is gone")
        self.asked += [(kind, text) for text in texts]
        return super().embed(texts, kind)


def test_a_failing_embedder_leaves_words(registry):
    embedder = Scripted()
    router = Router(registry, embedder)
    router.prepare()
    embedder.broken = True
    (found,) = router.route("certbot cannot renew the certificate")
    assert found.skill.name == "tls-certificate"
    assert found.why.endswith("the embedder failed: the model is gone")
    refused(EmbeddingError, "the model is gone", Router(registry, embedder).prepare)


def test_each_card_is_embedded_once(registry, write_skill):
    embedder = Scripted()
    router = Router(registry, embedder)
    for _ in range(3):
        router.route("renew the certificate")
    passages = [text for kind, text in embedder.asked if kind == "passage"]
    assert len(passages) == len(set(passages)) == 12 + 8
    write_skill("nginx-502", head="name: nginx-502\ndescription: Something else.")
    registry.reload()
    router.route("renew the certificate")
    assert [text for kind, text in embedder.asked if kind == "passage"][20:] == ["nginx-502: Something else."]


def test_many_cards_wait_for_prepare(write_skill):
    cases = [{"name": f"s{n}", "description": f"Handles case{n}."} for n in range(300)]
    embedder = Scripted()
    router = Router(registry_of(cases, write_skill), embedder)
    (found,) = router.route("handle case17")
    assert found.skill.name == "s17"
    assert found.why.endswith("vectors are not ready")
    assert embedder.asked == []
    router.prepare()
    (found,) = router.route("handle case17")
    assert "meaning" in found.why


def test_threads_share_a_router(registry, write_skill):
    router = Router(registry, HashEmbedder())

    def use(place):
        for n in range(30):
            write_skill(f"extra{place}", head=f"name: extra{place}\ndescription: Version {n} of {place}.")
            registry.reload()
            assert all(np.isfinite(r.score) for r in router.route("certbot renews a certificate", 5))

    at_once(use, range(4))
