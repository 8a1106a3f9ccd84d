"""Passwords and keys never get into an error's message, in whatever shape the address was given."""

import traceback

import pytest
from tables import read_tables

import jiyi
from jiyi.errors import InputError, JiyiError, NotFound
from jiyi.settings import Settings
from jiyi.telling import mask

SECRET = "hunter2"
TABLES = read_tables(__file__)
ADDRESSES, OF_SERVICES = (
    [one.replace("SECRET", SECRET) for one in TABLES[name]] for name in ("addresses", "addresses of services")
)


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_broken_address_is_refused_without_its_password(address):
    assert SECRET not in mask(address)
    assert SECRET not in str(JiyiError(f"cannot open {address}: no such host; see docs of ana@example.org"))
    with pytest.raises(JiyiError) as refused:
        jiyi.open(address, user_id="ana")
    assert SECRET not in "".join(traceback.format_exception(refused.value))
    assert address not in str(refused.value)


@pytest.mark.parametrize("address", OF_SERVICES)
def test_settings_show_no_key(address):
    given = Settings(llm_base_url=address, chroma_url=address, llm_api_key=SECRET)
    assert SECRET not in repr(given)
    assert given.llm_base_url == address
    with pytest.raises(ValueError, match="llm_api_key") as refused:
        Settings(llm_api_key=[SECRET])
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("plain", TABLES["other words"])
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
