"""Finds prompts by name and language."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from string import Template
from typing import Literal, get_args

from jiyi.errors import InputError

__all__ = ["Language", "check_prompt", "load_prompt", "quote", "wording"]

Language = Literal["zh", "en"]
"""The languages every prompt exists in."""


@cache
def load_prompt(name: str, language: Language) -> Template:
    """Return a prompt; fill it with ``substitute``, which refuses to leave a place empty.

    Places are filled once: a "$word" inside what is put in stays as it is.

    Raises:
        InputError: there is no such prompt in that language; names those there are.
    """
    folder = files(__package__) / language
    if not name.isidentifier() or not (file := folder / f"{name}.md").is_file():
        inside = folder.iterdir() if folder.is_dir() else ()
        known = sorted(e.name.removesuffix(".md") for e in inside if e.name.endswith(".md"))
        raise InputError(f"no prompt {name!r} in {language!r}; there are {', '.join(known) or 'none'}")
    return Template(file.read_text(encoding="utf-8").strip())


def wording(section: str, language: str) -> Mapping[str, str]:
    """Return the words of a section of `wording.toml`, by their names; read once.

    Raises:
        InputError: the language is neither "zh" nor "en".
        KeyError: there is no such section.
    """
    return _wording(language)[section]


@cache
def _wording(language: str) -> Mapping[str, Mapping[str, str]]:
    if language not in get_args(Language):
        raise InputError(f'language must be "zh" or "en", not {language!r}')
    return tomllib.loads((files(__package__) / language / "wording.toml").read_text(encoding="utf-8"))


def check_prompt(text: str, *, needed: Sequence[str], others: Sequence[str] = ()) -> Template:
    """Return an own prompt as a template, once it can be filled.

    Raises:
        InputError: it is no text, a needed place such as ``$dialogue`` is missing, or it has
            places that nothing fills; a "$" that is meant is written "$$".
    """
    if not isinstance(text, str):
        raise InputError(f"a prompt is a text, not {type(text).__name__}")
    template = Template(text.strip())
    places = set(template.get_identifiers()) if template.is_valid() else {"?"}
    unknown = sorted(places.difference(needed, others))
    missing = [f"${name}" for name in needed if name not in places]
    if unknown or missing:
        known = ", ".join(f"${name}" for name in (*needed, *others))
        wrong = f"does not have {', '.join(missing)}" if missing else "has a $ that nothing fills"
        raise InputError(f"the prompt {wrong}; its places are {known}, and $$ is a plain $")
    return template


def quote(text: str) -> str:
    """Put ``> `` before each line: whatever it says, it cannot pass for a line of the prompt."""
    return "> " + "\n> ".join(text.splitlines()) if text else ">"
