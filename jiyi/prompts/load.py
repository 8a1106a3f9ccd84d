"""Finds prompts by name and language."""

from functools import cache
from importlib.resources import files
from string import Template
from typing import Literal

from jiyi.errors import InputError

__all__ = ["Language", "load_prompt", "quote"]

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
        known = sorted(e.name.removesuffix(".md") for e in folder.iterdir()) if folder.is_dir() else []
        raise InputError(f"no prompt {name!r} in {language!r}; there are {', '.join(known) or 'none'}")
    return Template(file.read_text(encoding="utf-8").strip())


def quote(text: str) -> str:
    """Put ``> `` before each line: whatever it says, it cannot pass for a line of the prompt."""
    return "\n".join(f"> {line}" for line in text.splitlines()) or ">"
