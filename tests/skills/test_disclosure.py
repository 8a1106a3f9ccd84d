import pytest
from at_once import at_once
from refusing import raises, refused

from jiyi.errors import InputError, NotFound
from jiyi.records import Scope
from jiyi.skills import Disclosure, Router, SkillRegistry, SkillShelf
from jiyi.testing import HashEmbedder
from jiyi.text import counter_for

COUNTER = counter_for()


@pytest.fixture
def registry(write_skill):
    for name in ("alpha", "beta", "gamma", "delta"):
        write_skill(name, body=f"How to do {name}. " * 20)
    folder = write_skill("alpha", body="How to do alpha.", examples_md="Like this.", files__a_md="A!")
    return SkillRegistry(folder.parent)


def shown(disclosure, language="en"):
    return [block.source_id for block in disclosure.blocks(COUNTER, language)]


def test_a_session_begins_with_cards_alone(registry):
    (block,) = Disclosure(registry).blocks(COUNTER, "en")
    assert (block.section, block.kind, block.required) == ("skills", "skill", True)
    assert block.tokens == COUNTER.count_text(block.text)
    assert all(f"- {name}: Does {name}." in block.text for name in registry.names)
    assert "How to do" not in block.text


def test_open_brings_body_and_examples_into_the_window(registry):
    disclosure = Disclosure(registry)
    cards = disclosure.blocks(COUNTER, "en")[0]
    text = disclosure.open("alpha")
    assert text.startswith('<skill name="alpha">\nHow to do alpha.')
    assert "## Examples\n\nLike this." in text
    assert "files/a.md" in text
    first, body = disclosure.blocks(COUNTER, "en")
    assert first == cards
    assert (body.text, body.source_id, body.required) == (text, "alpha", False)
    assert body.tokens == COUNTER.count_text(text)


def test_a_resource_opens_nothing_and_long_examples_are_files_to_ask_for(registry, write_skill):
    disclosure = Disclosure(registry)
    assert disclosure.open("alpha", resource="files/a.md") == "A!"
    assert disclosure.opened == ()
    refused(InputError, "inside the folder", disclosure.open, "alpha", resource="../beta/SKILL.md")
    folder = write_skill("long", body="Short.", examples_md="word " * 6000, other_md="x")
    text = Disclosure(SkillRegistry(folder.parent)).open("long")
    assert "word" not in text
    assert "examples.md, other.md" in text


def test_the_one_opened_first_closes(registry):
    disclosure = Disclosure(registry, max_open=2)
    for name in ("alpha", "beta", "alpha", "gamma"):
        disclosure.open(name)
    assert disclosure.opened == ("beta", "gamma")
    blocks = disclosure.blocks(COUNTER, "en")
    assert [block.source_id for block in blocks] == ["cards", "beta", "gamma"]
    assert blocks[1].score < blocks[2].score  # where a window is too small, the newest stays


def test_close_unloads_and_swap_unloads_the_old_and_loads_the_new(registry):
    disclosure = Disclosure(registry)
    disclosure.open("alpha")
    assert disclosure.close("alpha")
    assert not disclosure.close("alpha")
    assert shown(disclosure) == ["cards"]
    assert disclosure.swap(["alpha", "beta"]) == ()
    assert disclosure.swap(["gamma", "beta", "gamma"]) == ("alpha",)
    assert disclosure.opened == ("beta", "gamma")
    assert disclosure.swap([]) == ("beta", "gamma")
    assert shown(disclosure) == ["cards"]


def test_a_call_that_fails_changes_nothing(registry, write_skill):
    write_skill("torn", body=b"\xff")
    registry.reload()
    disclosure = Disclosure(registry, max_open=2)
    disclosure.open("alpha")
    refused(NotFound, "alpha, beta", disclosure.open, "nothing")
    refused(InputError, "torn cannot be opened", disclosure.open, "torn")
    for names, error in {
        ("beta", "nothing"): NotFound,
        ("beta", "torn"): InputError,
        ("alpha", "beta", "gamma"): InputError,
    }.items():
        raises(error, disclosure.swap, names)
    refused(InputError, "list of names", disclosure.swap, "beta")
    assert disclosure.opened == ("alpha",)


def test_the_cards_stay_the_same_text_whatever_is_opened_and_asked(registry):
    disclosure = Disclosure(registry)
    first = disclosure.blocks(COUNTER, "zh")[0]
    disclosure.open("beta")
    disclosure.route("how to do gamma")
    assert disclosure.blocks(COUNTER, "en")[0].text == first.text
    disclosure.swap(["gamma"])
    registry.reload()
    assert disclosure.blocks(COUNTER, "en")[0].text == first.text


def test_the_language_of_the_first_call_stays_when_skills_change(registry, write_skill):
    disclosure = Disclosure(registry)
    first = disclosure.blocks(COUNTER, "zh")[0].text.splitlines()[0]
    write_skill("zeta")
    registry.reload()
    again = disclosure.blocks(COUNTER, "en")[0].text
    assert "- zeta:" in again
    assert again.splitlines()[0] == first


def test_a_reload_is_seen_without_a_restart(registry, write_skill):
    disclosure = Disclosure(registry)
    disclosure.swap(["alpha", "beta"])
    disclosure.blocks(COUNTER, "en")
    write_skill("alpha", head="name: alpha\ndescription: Does it again.", body="The new way.")
    (write_skill("beta") / "SKILL.md").unlink()
    write_skill("epsilon")
    registry.reload()
    cards, alpha = disclosure.blocks(COUNTER, "en")
    assert "- alpha: Does it again." in cards.text
    assert "- epsilon:" in cards.text
    assert "beta" not in cards.text
    assert "The new way." in alpha.text
    assert disclosure.opened == ("alpha",)


def test_an_open_skill_that_cannot_be_read_any_more_is_said(registry, write_skill):
    disclosure = Disclosure(registry)
    disclosure.open("alpha")
    write_skill("alpha", body=b"\xff")
    registry.reload()
    (cards,) = disclosure.blocks(COUNTER, "en")
    assert "alpha cannot be opened" in cards.note


def test_saved_is_what_is_not_in_the_window(registry):
    disclosure = Disclosure(registry)
    total = disclosure.saved(COUNTER)
    assert total == sum(registry.body_tokens(name, COUNTER) for name in registry.names)
    assert total > 300
    disclosure.open("gamma")
    assert disclosure.saved(COUNTER) == total - registry.body_tokens("gamma", COUNTER)
    disclosure.close("gamma")
    assert disclosure.saved(COUNTER) == total


def test_without_skills_there_is_nothing_to_show(tmp_path):
    disclosure = Disclosure(SkillRegistry(tmp_path))
    assert disclosure.blocks(COUNTER, "en") == []
    assert disclosure.saved(COUNTER) == 0
    assert disclosure.route("anything") == []


def test_a_session_goes_on_where_it_was_and_shortened_cards_are_noted(registry):
    assert Disclosure(registry, opened=("gone", "beta", "alpha", "beta")).opened == ("beta", "alpha")
    assert Disclosure(registry, max_open=1, opened=("beta", "alpha")).opened == ("alpha",)
    assert "names only" in Disclosure(registry, max_card_tokens=45).blocks(COUNTER, "en")[0].note


@pytest.mark.parametrize("options", [{"max_open": 0}, {"max_card_tokens": 0}])
def test_impossible_bounds(registry, options):
    refused(InputError, "at least 1", Disclosure, registry, **options)


def test_never_more_open_than_allowed_with_threads(registry):
    disclosure = Disclosure(registry, max_open=2)
    counts = []

    def use(name):
        for _ in range(100):
            disclosure.open(name)
            counts.append(len(disclosure.blocks(COUNTER, "en")))
            disclosure.close(name)

    at_once(use, registry.names)
    assert len(counts) == 400
    assert max(counts) <= 3
    assert disclosure.opened == ()


# --- one for each session


def scope(session, user="ana"):
    return Scope(user_id=user, session_id=session)


def test_of_too_many_sessions_the_one_not_used_longest_begins_again(registry, monkeypatch):
    monkeypatch.setattr("jiyi.skills.disclosure._MAX_SESSIONS", 2)
    shelf = SkillShelf(registry, Router(registry))
    for session in ("s-1", "s-2"):
        shelf.of(scope(session)).open("alpha")
    shelf.of(scope("s-1"))
    shelf.of(scope("s-3"))
    assert shelf.of(scope("s-1")).opened == ("alpha",)
    assert shelf.of(scope("s-2")).opened == ()


def test_sessions_share_the_router(write_skill):
    calls = []

    class Counted(HashEmbedder):
        def embed(self, texts, kind):
            calls.append(kind)
            return super().embed(texts, kind)

    registry = SkillRegistry(write_skill("tea", head="name: tea\ndescription: Brews tea.").parent)
    shelf = SkillShelf(registry, Router(registry, Counted()))
    for session in ("s-1", "s-2", "s-3"):
        assert shelf.of(scope(session)).route("brew tea")[0].skill.name == "tea"
    assert calls.count("passage") == 3  # what is beside in two languages, and the cards
