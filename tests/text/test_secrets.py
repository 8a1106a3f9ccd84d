"""Secrets: found as they are written, hidden unless asked for, at a cost that grows with the text alone."""

import re
import time
from pathlib import Path

import pytest

from jiyi.text import Secrecy, language, secrets

_MARKED = re.compile(r"⟦(.*?)⟧([a-z]+)")


def labelled():
    """Every text of the file beside this one, with its secrets as kind, start and end."""
    for line in (Path(__file__).parent / "secrets.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        text, at, want = "", 0, set()
        for match in _MARKED.finditer(line):
            text += line[at : match.start()]
            want.add((match[2], len(text), len(text) + len(match[1])))
            text += match[1]
            at = match.end()
        yield text + line[at:], want


def found(text):
    return {(one.kind, one.start, one.end) for one in secrets(text)}


@pytest.mark.parametrize("tongue", ["zh", "en"])
def test_secrets_are_told_from_what_looks_like_them(tongue):
    texts = [(text, want) for text, want in labelled() if language(text) == tongue]
    assert len(texts) >= 60
    assert 0.4 <= sum(not want for _, want in texts) / len(texts) <= 0.6
    right = sum(len(found(text) & want) for text, want in texts)
    told, there = sum(len(found(text)) for text, _ in texts), sum(len(want) for _, want in texts)
    wrong = {text: (want, found(text)) for text, want in texts if want != found(text)}
    assert right / told >= 0.95, wrong
    assert right / there >= 0.95, wrong


_UNITS = (
    "password |密码|密码是|password for a |pin |pin 4821, |A_A_KEY|1|4111 |://a:|eyJaaaaaaaaa.|口令是“"
    "|wifi: a |-----BEGIN PRIVATE KEY-----|combination of the safe |key=|a| is the my our "
)


@pytest.mark.parametrize("unit", _UNITS.split("|"))
def test_hostile_texts_cost_no_more_than_their_length(unit):
    def seconds(size):
        text = (unit * (size // len(unit) + 1))[:size]
        runs = []
        for _ in range(3):
            started = time.process_time()
            secrets(text)
            runs.append(time.process_time() - started)
        return min(runs)

    short, long = seconds(4_000), seconds(32_000)
    assert long < max(20 * short, 0.02), f"{short * 1e3:.1f} ms for 4,000, {long * 1e3:.1f} for 32,000"


def test_nothing_is_found_in_nothing_and_another_wording_shows_a_secret():
    for text in ("", " ", "\0", "\ud800", "密", "::::", "password:", "密码：", "PIN "):
        assert secrets(text) == ()
    text, clause = "garage · value: tulip-88", "The code for the garage door: password tulip-88"
    assert secrets(text) == ()
    assert [text[one.start : one.end] for one in secrets(text, clause)] == ["tulip-88"]
    assert Secrecy("bread?", [text], "en")(text, clause) == "garage · value: [password hidden]"


WIFI, BANK = "The wifi password is tulip-88.", "Bank card PIN is 4821."


NO_WIFI, NO_BANK = "The wifi password is [password hidden].", "Bank card PIN is [code hidden]."


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("How do I bake bread?", (NO_WIFI, NO_BANK)),
        ("what's the wifi password", (WIFI, NO_BANK)),
        ("What is my PIN?", (NO_WIFI, BANK)),
        ("wifi 密码是多少？", (WIFI, NO_BANK)),
        ("", (NO_WIFI, NO_BANK)),
    ],
)
def test_a_secret_is_shown_to_whom_asks_for_it(question, shown):
    show = Secrecy(question, [WIFI, BANK], "en")
    assert (show(WIFI), show(BANK)) == shown


def test_of_two_passwords_the_one_that_is_named_is_shown():
    texts = ["admin password is swordfish", "wifi password is tulip-88", "nothing to hide"]
    named = Secrecy("What is the admin password?", texts, "en")
    assert [named(text) for text in texts] == [texts[0], "wifi password is [password hidden]", texts[2]]
    unnamed = Secrecy("What are the passwords?", texts, "en")
    assert [unnamed(text) for text in texts] == texts
    across = Secrecy("管理员的密码？", texts, "zh")
    assert [across(text) for text in texts] == texts


def test_what_is_hidden_is_named_in_the_language_of_the_window():
    text = "身份证 11010519491231002X，wifi 密码 tulip-88，卡 4111 1111 1111 1111"
    hidden = Secrecy("怎么烤面包？", [text], "zh")(text)
    assert hidden == "身份证 [证件号已隐藏]，wifi 密码 [密码已隐藏]，卡 [卡号已隐藏]"
