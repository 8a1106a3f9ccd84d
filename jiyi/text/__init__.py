"""Language without input or output: token counts, search terms, excerpts, dates and traits."""

from jiyi.text.analyse import analyse, language, query_terms
from jiyi.text.dates import TimeSpan, find_dates, has_date
from jiyi.text.excerpt import excerpt
from jiyi.text.tokens import TokenCounter, counter_for
from jiyi.text.traits import Trait, traits

__all__ = [
    "TimeSpan",
    "TokenCounter",
    "Trait",
    "analyse",
    "counter_for",
    "excerpt",
    "find_dates",
    "has_date",
    "language",
    "query_terms",
    "traits",
]
