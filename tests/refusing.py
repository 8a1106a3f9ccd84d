"""Calls that must be refused, one a line: with words that are said, or with any."""

from collections.abc import Callable
from typing import Any

import pytest

Call = Callable[..., Any]


def refused(error: type[Exception], words: str, call: Call, /, *args: Any, **options: Any) -> None:
    with pytest.raises(error, match=words):
        call(*args, **options)


def raises(error: type[BaseException], call: Call, /, *args: Any, **options: Any) -> None:
    with pytest.raises(error):
        call(*args, **options)
