"""Compression of texts and messages. Every compressor is a separate file and works alone.

Importing loads nothing heavy: models are loaded by the first call that needs them.
"""

from jiyi.compression.compressor import Compressed, Compressor, Given, as_messages
from jiyi.compression.extract import Extract, Extracted, ExtractedItem
from jiyi.compression.llmlingua import LLMLingua
from jiyi.compression.prune_tokens import PruneTokens
from jiyi.compression.relevance import Relevance
from jiyi.compression.summarize import Summarize
from jiyi.compression.tool_output import Page, ToolOutput, page

__all__ = [
    "Compressed",
    "Compressor",
    "Extract",
    "Extracted",
    "ExtractedItem",
    "Given",
    "LLMLingua",
    "Page",
    "PruneTokens",
    "Relevance",
    "Summarize",
    "ToolOutput",
    "as_messages",
    "page",
]
