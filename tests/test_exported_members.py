"""What `import jiyi` offers."""

import inspect
from importlib.metadata import version

import pytest

import jiyi


def test_what_is_exported_is_what_is_public_in_order():
    assert not [name for name in jiyi.__all__ if not hasattr(jiyi, name)]
    members = {
        name
        for name, value in vars(jiyi.api).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert members | {"errors", "__version__"} == set(jiyi.__all__)
    assert jiyi.__all__ == sorted(jiyi.__all__, key=lambda name: (not name[0].isupper(), name))
    assert len(jiyi.__all__) == len(set(jiyi.__all__))


def _public(owner: object, name: str) -> list[tuple[str, object]]:
    found = [(name, owner)]
    if inspect.isclass(owner):
        found += [
            (f"{name}.{member}", value)
            for member, value in inspect.getmembers(owner)
            if not member.startswith("_")
            and (inspect.isfunction(value) or inspect.ismethod(value) or isinstance(value, property))
            and (getattr(value, "__module__", "") or "").startswith("jiyi")
        ]
    return found


PUBLIC = [
    pair
    for name in jiyi.__all__
    if callable(getattr(jiyi, name))
    for pair in _public(getattr(jiyi, name), name)
] + [pair for name in jiyi.errors.__all__ for pair in _public(getattr(jiyi.errors, name), f"errors.{name}")]


@pytest.mark.parametrize(("name", "member"), PUBLIC, ids=[name for name, _ in PUBLIC])
def test_everything_public_has_a_docstring(name, member):
    words = inspect.getdoc(member) or ""
    assert words, f"jiyi.{name} has no docstring"
    assert not words.startswith(f"{name}("), f"jiyi.{name} has only the docstring dataclass made"


def test_every_error_and_the_version_are_ours():
    assert all(issubclass(getattr(jiyi.errors, name), jiyi.JiyiError) for name in jiyi.errors.__all__)
    assert all(name in (jiyi.errors.__doc__ or "") for name in jiyi.errors.__all__)
    assert jiyi.__version__ == version("jiyi")
