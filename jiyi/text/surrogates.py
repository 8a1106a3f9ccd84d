"""Replace halves of surrogate pairs: Python's strings may hold them, UTF-8 cannot."""

import json
from typing import Any

__all__ = ["encodable", "without_surrogates"]


def without_surrogates(text: str) -> str:
    """Return a text with a pair of surrogates as its character, and a lone one as U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def encodable(value: Any) -> Any:
    """Return a value whose texts are `without_surrogates`; TypeError, ValueError: JSON cannot hold it."""
    written = json.dumps(value, ensure_ascii=False)
    clean = without_surrogates(written)
    return value if clean == written else json.loads(clean)
