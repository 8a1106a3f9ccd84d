"""Hints leave no pattern untried that could match."""

from importlib import import_module

from jiyi.text.lexicon import Hints, read_toml

_parse = import_module("re._parser").parse


def requires(parsed, hints):
    """Say whether each text that a parsed pattern matches contains one of the hints."""
    run = ""
    for kind, value in [*((str(kind), value) for kind, value in parsed), ("END", None)]:
        if kind == "LITERAL":
            run += chr(value)
            continue
        inside = any(hint in run for hint in hints)
        if kind in ("MAX_REPEAT", "MIN_REPEAT", "SUBPATTERN"):
            inside = inside or ((kind == "SUBPATTERN" or value[0] > 0) and requires(value[-1], hints))
        elif kind == "BRANCH":
            inside = inside or all(requires(part, hints) for part in value[1])
        elif kind == "IN":
            inside = inside or all(str(what) == "LITERAL" and chr(letter) in hints for what, letter in value)
        if inside:
            return True
        run = ""
    return False


def test_what_a_pattern_requires():
    for pattern, hints in (
        ("ab(?:c|d)e?", "ab"),
        ("a(?:c|d)e?", "c d"),
        ("(?:abc)+x", "abc"),
        ("[ab]x?", "a b"),
    ):
        assert requires(_parse(pattern), hints.split())
    for pattern, hints in (("a(?:c|d)e?", "c"), ("ae?", "e"), ("(?:abc)*x", "abc"), (r"a\w+b", "ab")):
        assert not requires(_parse(pattern), hints.split())


def test_no_sign_matches_without_its_hints_and_places_are_those_whose_hints_stand_there():
    for sign in read_toml("jiyi.text", "suspicious")["signs"]:
        assert "hints" not in sign or requires(_parse(sign["all"][0]), sign["hints"]), sign["hints"]
    hints = Hints([["ab", "忽略"], [""], ["b"], ["x"]])
    assert [hints.places(text) for text in ("ab", "请忽略", "")] == [[0, 1, 2], [0, 1], [1]]
