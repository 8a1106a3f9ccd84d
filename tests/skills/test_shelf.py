from jiyi.records import Scope
from jiyi.skills import Router, SkillRegistry, SkillShelf
from jiyi.testing import HashEmbedder


def scope(session, user="ana"):
    return Scope(user_id=user, session_id=session)


def test_each_session_has_its_own_open_skills(examples):
    shelf = SkillShelf(SkillRegistry(examples))
    shelf.of(scope("s-1")).open("nginx-502")
    assert shelf.of(scope("s-1")).opened == ("nginx-502",)
    assert shelf.of(scope("s-2")).opened == ()
    assert shelf.of(scope("s-1", user="bo")).opened == ()


def test_of_too_many_sessions_the_one_not_used_longest_begins_anew(examples, monkeypatch):
    monkeypatch.setattr("jiyi.skills.disclosure._MOST_SESSIONS", 2)
    shelf = SkillShelf(SkillRegistry(examples))
    for session in ("s-1", "s-2"):
        shelf.of(scope(session)).open("nginx-502")
    shelf.of(scope("s-1"))
    shelf.of(scope("s-3"))
    assert shelf.of(scope("s-1")).opened == ("nginx-502",)
    assert shelf.of(scope("s-2")).opened == ()


def test_a_new_session_sees_new_skills(write_skill):
    shelf = SkillShelf(SkillRegistry(write_skill("one").parent))
    assert shelf.of(scope("s-1")).registry.names == ("one",)
    write_skill("two")
    assert shelf.of(scope("s-2")).registry.names == ("one", "two")


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
