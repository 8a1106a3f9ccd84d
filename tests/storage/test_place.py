"""Paths and URLs: what they name, and that no password is shown."""

from pathlib import Path

import pytest
from tables import read_tables

from jiyi.errors import SettingsError
from jiyi.storage.place import Place, locate
from jiyi.telling import mask

SECRET = "s3cret"


@pytest.mark.parametrize(("url", "shown"), read_tables(__file__)["servers, and how they are shown"])
def test_a_server_is_named_without_its_password(url, shown):
    place = locate(url)
    assert (place.path, place.url) == (None, url)
    assert str(place) == mask(url) == shown
    assert SECRET not in repr(place)


@pytest.mark.parametrize(("url", "said"), read_tables(__file__)["no addresses, and what is said of them"])
def test_what_is_no_address_is_refused_without_showing_its_password(url, said):
    with pytest.raises(SettingsError, match=said) as caught:
        locate(url)
    assert SECRET not in str(caught.value)


def test_a_file_is_named_and_a_place_taken_as_it_is(tmp_path):
    for given in (tmp_path / "a:b@c.db", str(tmp_path / "a:b@c.db"), f"sqlite:///{tmp_path}/a:b@c.db"):
        assert locate(given) == Place(path=tmp_path / "a:b@c.db")
        assert str(locate(given)) == str(tmp_path / "a:b@c.db")
    place = Place(path=Path("x.db"))
    assert locate(place) is place
