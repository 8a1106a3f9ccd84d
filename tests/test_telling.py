"""Passwords and keys never get into an error's message, in whatever shape the address was given."""

import traceback

import pytest

import jiyi
from jiyi.errors import InputError, JiyiError, NotFound
from jiyi.settings import Settings
from jiyi.telling import mask

SECRET = "hunter2"
ADDRESSES = [
    f"postgres//jiyi:{SECRET}@h/x",
    f"postgres:/jiyi:{SECRET}@h/x",
    f"postgresql:jiyi:{SECRET}@h/x",
    f"jiyi:{SECRET}@h:5432/x",
    f"postgresql://u:{SECRET} PW@h/d",
    f"postgresql://u:PW {SECRET}@h/d",
    f"postgresql://u:'{SECRET}'@h/d",
    f"postgresql://u:%zz{SECRET}@h/d",
    f"postgresql://u:{SECRET}@[::1/d",
    f"postgresql://u@h/d?password={SECRET}&bad",
    f"postgresql://u@h/d?password={SECRET}&bogus=1",
    f"host=h password={SECRET} dbname=x",
    f"host=h password = 'a {SECRET}' dbname=x",
    f"mysql://u:{SECRET}@h/d",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_broken_address_is_refused_without_its_password(address):
    assert SECRET not in mask(address)
    assert SECRET not in str(JiyiError(f"cannot open {address}: no such host; see docs of ana@example.org"))
    with pytest.raises(JiyiError) as refused:
        jiyi.open(address, user_id="ana")
    assert SECRET not in "".join(traceback.format_exception(refused.value))
    assert address not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        f"https://user:{SECRET}@h/v1",
        f"https://h/v1?api_key={SECRET}",
        f"https://h/v1?x=1&token={SECRET}",
        f"user:{SECRET}@h",
    ],
)
def test_settings_show_no_key(address):
    given = Settings(llm_base_url=address, chroma_url=address, llm_api_key=SECRET)
    assert SECRET not in repr(given)
    assert given.llm_base_url == address
    with pytest.raises(ValueError, match="llm_api_key") as refused:
        Settings(llm_api_key=[SECRET])
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "plain",
    [
        "http://h:8080/x did not answer; ask ana@example.org",
        "give postgresql://…",
        "12:30 to 13:45 //",
        "no message 'a:b' of 'ana'; see https://example.org:8443",
    ],
)
def test_other_words_stay(plain):
    assert str(JiyiError(plain)) == plain


def test_a_long_input_is_not_repeated():
    said = str(NotFound(f"no session {'s' * 10_000!r}; list them with: jiyi show"))
    assert len(said) < 200
    assert said.endswith("…'; list them with: jiyi show")
    said = str(InputError(f"ids={['x'] * 10_000!r} must be text; give a list of ids"))
    assert len(said) < 500
    assert said.startswith("ids=['x', ")
    assert said.endswith("must be text; give a list of ids")
