"""What well-known chat models take and give: the table ``models.toml``."""

import re
import tomllib
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files

__all__ = ["ASSUMED", "ModelSize", "model_size", "model_sizes"]

_DATED = re.compile(r"(?:[-@]\d{4}-?\d{2}-?\d{2}|[-:]latest)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """How much a model takes and gives, in tokens of its own vocabulary."""

    context_window: int  # input and output together
    max_output_tokens: int  # of one reply
    source: str = ""  # address of the page that says so; "" where it is assumed
    read: date | None = None  # when that page said so

    @property
    def reserve(self) -> int:
        """What to keep free for a reply: the longest there can be, at most a quarter of the window."""
        return min(self.max_output_tokens, self.context_window // 4)


ASSUMED = ModelSize(context_window=8_192, max_output_tokens=2_048)
"""What is assumed of a model that is not in the table."""


@cache
def model_sizes() -> dict[str, ModelSize]:
    """Return the table by name of model."""
    text = (files(__package__) / "models.toml").read_text("utf-8")
    return {name: ModelSize(**size) for name, size in tomllib.loads(text).items()}


def model_size(model: str) -> ModelSize | None:
    """Return the size of a model, None where the table does not know it.

    A provider before the name ("openai/gpt-4o"), and a date or "latest" behind it
    ("gpt-4o-2024-08-06", "mistral-large-latest") do not matter; case does not either.
    """
    known = model_sizes()
    name = model.strip().lower()
    name = name if name in known else name.rpartition("/")[2]
    return known.get(name) or known.get(_DATED.sub("", name))
