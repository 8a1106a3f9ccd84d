"""Texts of the tools for people and models, in Chinese and English."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Words", "load_words"]


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of one language, each part by name."""

    instructions: str  # for the model: when to use the memory
    titles: Mapping[str, str]  # of tools, resources and the prompt, for people
    about: Mapping[str, str]  # what these do, for the model
    arguments: Mapping[str, str]  # of tools, "tool.argument" or "argument", if its name does not say enough
    notes: Mapping[str, str]  # sentences of answers, some of them format strings


@cache
def load_words(language: str) -> Words:
    """Load the texts of a language, "zh" or "en"."""
    tables = tomllib.loads(files("jiyi.mcp").joinpath("words.toml").read_text("utf-8"))
    return Words(**tables[language])
