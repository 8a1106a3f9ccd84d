"""Calls that must be refused, one a line, for tests that list many of them."""

from collections.abc import Callable
from typing import Any

import pytest


def refused(error: type[Exception], words: str, call: Callable[..., Any], *args: Any, **options: Any) -> None:
    with pytest.raises(error, match=words):
        call(*args, **options)
