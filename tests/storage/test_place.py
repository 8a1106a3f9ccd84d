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


@pytest.mark.parametrize(
    "password", ["a@s3cret", "a/s3cret", "s3cret?b", "s3cret/@", "a:1/s3cret@x", "1234?s3cret"]
)
def test_a_password_that_must_be_encoded_is_refused_without_showing_it(password):
    with pytest.raises(
        SettingsError, match=r"postgresql://ana:\*\*\*@db/jiyi is no usable address; .*%40"
    ) as refused:
        locate(f"postgresql://ana:{password}@db/jiyi")
    assert SECRET not in str(refused.value)


def test_a_file_is_named_and_a_place_taken_as_it_is(tmp_path):
    for given in (tmp_path / "a:b@c.db", str(tmp_path / "a:b@c.db"), f"sqlite:///{tmp_path}/a:b@c.db"):
        assert locate(given) == Place(path=tmp_path / "a:b@c.db")
        assert str(locate(given)) == str(tmp_path / "a:b@c.db")
    place = Place(path=Path("x.db"))
    assert locate(place) is place


@pytest.mark.parametrize("url", ["mysql://ana:s3cret@db/x", "postgresql+psycopg://ana:s3cret@db/x"])
def test_other_schemes_are_refused_without_showing_the_password(url):
    with pytest.raises(SettingsError, match=r"names no backend .*postgresql://") as refused:
        locate(url)
    assert SECRET not in str(refused.value)
