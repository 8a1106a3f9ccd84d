"""Language without input or output: token counts, search terms, excerpts, dates, traits and secrets."""

from jiyi.text.analyse import analyse, language, query_terms
from jiyi.text.cut import first_words, sentences
from jiyi.text.dates import TimeSpan, find_dates, has_date
from jiyi.text.excerpt import excerpt
from jiyi.text.keys import entity_key, predicate_key
from jiyi.text.modality import Mode, modes
from jiyi.text.salience import salience
from jiyi.text.secrets import Secrecy, Secret, SecretKind, secrets
from jiyi.text.tokens import TokenCounter, counter_for
from jiyi.text.traits import Trait, traits

__all__ = [
    "Mode",
    "Secrecy",
    "Secret",
    "SecretKind",
    "TimeSpan",
    "TokenCounter",
    "Trait",
    "analyse",
    "counter_for",
    "entity_key",
    "excerpt",
    "find_dates",
    "first_words",
    "has_date",
    "language",
    "modes",
    "predicate_key",
    "query_terms",
    "salience",
    "secrets",
    "sentences",
    "traits",
]
