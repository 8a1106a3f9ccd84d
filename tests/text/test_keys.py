import time
import tomllib
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import read_tables

from jiyi.text import entity_key, predicate_key
from jiyi.text.keys import MAX_KEY

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))
TABLES = read_tables(__file__)
WORDS = " ".join(TABLES["pieces of names"]).split()
PIECES = st.sampled_from([*WORDS, " ", "  ", "\u3000", "\0", "\u200b"])
ODD_TEXT = st.lists(PIECES, max_size=12).map("".join)


def meet(*names, key=entity_key):
    return len({key(name) for name in names}) == 1


@pytest.mark.parametrize("names", [*TABLES["one thing"], ("café", "CAFÉ", "cafe\u0301")], ids=lambda n: n[0])
def test_spellings_of_one_thing_meet(names):
    assert meet(*names), {name: entity_key(name) for name in names}


@pytest.mark.parametrize("names", TABLES["different things"], ids=lambda names: names[0])
def test_different_things_do_not_meet(names):
    keys = {name: entity_key(name) for name in names}
    assert len(set(keys.values())) == len(names), keys


@pytest.mark.parametrize("names", TABLES["one point"], ids=lambda names: names[0])
def test_points_meet(names):
    assert meet(*names, key=predicate_key), {name: predicate_key(name) for name in names}


def test_points_that_differ_do_not_meet():
    names = TABLES["points that differ"]
    keys = {name: predicate_key(name) for name in names}
    assert keys["喜欢"] == keys["likes"]
    assert keys["不喜欢"] == keys["dislikes"]
    assert len(set(keys.values())) == len(names) - 2


def test_keys_are_readable_where_the_words_are_known():
    assert entity_key("订单数据库的备份") == "order database backup"
    assert entity_key("/etc/nginx/nginx.conf 文件") == "/etc/nginx/nginx.conf file"
    assert predicate_key("最大连接数") == "最大连接数"


@pytest.mark.parametrize("key", [entity_key, predicate_key])
def test_nothing_gives_nothing_and_signs_alone_give_themselves(key):
    assert [key(name) for name in ("", "  ", "\n\t\u3000")] == ["", "", ""]
    assert [key(name) for name in ("!!!", "的", "the", "--", "🐱")] == ["!!!", "的", "the", "--", "🐱"]


@pytest.mark.parametrize("key", [entity_key, predicate_key])
def test_long_names_have_short_keys_that_depend_on_all_of_them(key):
    for size in (100, 300, 5_000, 3_000_000):
        name = "edge " * size
        assert len(key(name + "02")) <= MAX_KEY
        assert key(name + "02") == key(key(name + "02"))
        assert key(name + "02") != key(name + "03")


@given(ANY_TEXT | ODD_TEXT)
def test_a_key_of_a_key_is_that_key_and_fits(name):
    for key in (entity_key, predicate_key):
        found = key(name)
        assert key(found) == found
        assert len(found) <= MAX_KEY
        assert found == found.strip()
        found.encode()
        assert "\0" not in found


@given(ODD_TEXT)
def test_case_and_width_of_spaces_do_not_matter(name):
    assert entity_key(name.upper()) == entity_key(name)
    assert entity_key(f" {name}\u3000") == entity_key(name)


@pytest.mark.parametrize(("table", "key"), [("nouns", entity_key), ("points", predicate_key)])
def test_every_word_of_a_group_leads_to_one_key(table, key):
    last = {}
    tables = tomllib.loads(files("jiyi.text").joinpath("keys.toml").read_text("utf-8"))
    known = tables["nouns"] + (tables["points"] if table == "points" else "")
    groups = [line.split() for line in known.split("\n") if line]
    for number, group in enumerate(groups):
        last |= dict.fromkeys(group, number)
    for number, group in enumerate(groups):
        own = [word.replace("_", " ") for word in group if last[word] == number]
        assert len({key(word) for word in own}) <= 1, {word: key(word) for word in own}
    assert len(groups) >= 150


def test_a_name_takes_microseconds():
    names = [f"{a}-{n} {b}" for n in range(2_000) for a, b in [("edge", "网关"), ("订单", "container")]]
    began = time.process_time()
    for name in names:
        entity_key(name)
    assert time.process_time() - began < 4_000 * 100e-6
