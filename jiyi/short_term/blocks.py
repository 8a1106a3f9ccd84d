"""The summary of a conversation as a block of context."""

from jiyi.compression.summarize import Summarize
from jiyi.records import Block, Summary
from jiyi.text import TokenCounter

__all__ = ["summary_block"]


def summary_block(summary: Summary | None, most: int, counter: TokenCounter) -> Block | None:
    """Return the summary as a block; of one of more than ``most`` tokens its weightiest points."""
    if summary is None:
        return None
    text, note = summary.text, f"version {summary.version}, {summary.method}"
    if summary.tokens > most > 0:
        made = Summarize(max_tokens=most, counter=counter)([], previous=text)
        text, note = made.text, f"{note}; {made.tokens} of its {summary.tokens} tokens"
    if not text:
        return None
    return Block(
        section="summary",
        kind="summary",
        source_id=summary.id,
        text=text,
        tokens=counter.count_text(text),
        created_at=summary.created_at,
        note=note,
    )
