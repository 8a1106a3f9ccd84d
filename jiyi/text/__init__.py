"""Language without input or output: token counts, search terms and excerpts."""

from jiyi.text.analyse import analyse, language, query_terms
from jiyi.text.excerpt import excerpt
from jiyi.text.tokens import TokenCounter, counter_for

__all__ = ["TokenCounter", "analyse", "counter_for", "excerpt", "language", "query_terms"]
