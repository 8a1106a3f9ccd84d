"""Windows to watch."""

from typing import Any

import pytest

from jiyi.records import Block, Budget, Report, Window


def make_window(question: str = "why 502?", *texts: str, tokens: int = 100, **report: Any) -> Window:
    """A window of so many tokens that shows these texts as recalled."""
    blocks = [Block(section="recalled", text=t, tokens=1, source_id=str(i)) for i, t in enumerate(texts)]
    fields = {
        "budget": Budget(max_input_tokens=1000, max_output_tokens=200),
        "tokens": tokens,
        "sections": {"system": tokens // 4, "recalled": tokens // 2},
        "framing": tokens - tokens // 4 - tokens // 2,
        "included": (),
        "left_out": (),
    }
    return Window(
        messages=[{"role": "system", "content": "be kind"}, {"role": "user", "content": question}],
        markdown="",
        report=Report(**(fields | report)),
        blocks=tuple(blocks),
    )


@pytest.fixture
def window_of():
    return make_window
