"""What the model is told: the same in both languages, place by place."""

from string import Formatter

from jiyi.agent.wording import WORDS


def test_both_languages_say_the_same_things() -> None:
    assert list(WORDS["en"]) == list(WORDS["zh"])
    for name, words in WORDS["en"].items():
        places = [sorted({p for _, p, _, _ in Formatter().parse(w) if p}) for w in (words, WORDS["zh"][name])]
        assert places[0] == places[1], name
        assert any("一" <= char <= "鿿" for char in WORDS["zh"][name])
        assert words.isascii(), name
