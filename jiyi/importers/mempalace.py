"""A palace of MemPalace: drawers in the tables of Chroma, and a graph of triples."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import apsw

from jiyi.importers.entries import Entry, RecordMaker
from jiyi.importers.sqlite import table_columns

__all__ = ["PALACE_FILES", "PALACE_TABLES", "read_mempalace"]

PALACE_TABLES = {
    "embedding_metadata": frozenset({"id", "key", "string_value", "int_value", "float_value"}),
    "triples": frozenset({"id", "subject", "predicate", "object", "valid_from", "valid_to", "confidence"}),
}
"""The columns that are read, by table."""

_DRAWERS = """
SELECT e.embedding_id, m.key, coalesce(m.string_value, m.int_value, m.float_value), c.name
FROM embeddings AS e JOIN segments AS s ON s.id = e.segment_id JOIN collections AS c ON c.id = s.collection
JOIN embedding_metadata AS m ON m.id = e.id ORDER BY e.id"""
_TRIPLES = """
SELECT t.id, coalesce(s.name, t.subject), t.predicate, coalesce(o.name, t.object), valid_from, valid_to,
       confidence, extracted_at || 'Z', source_file
FROM triples AS t LEFT JOIN entities AS s ON s.id = t.subject LEFT JOIN entities AS o ON o.id = t.object
ORDER BY t.rowid"""
PALACE_FILES = ("chroma.sqlite3", "knowledge_graph.sqlite3")
"""The databases in the folder of a palace."""

_LABELS = ("wing", "room", "source_file", "chunk_index", "added_by")


def read_mempalace(db: apsw.Connection, make: RecordMaker) -> Iterator[Entry]:
    """Read drawers as knowledge, and triples as facts with the time for which they held."""
    columns = table_columns(db)
    if "embeddings" in columns and "embedding_metadata" in columns:
        for (id_, palace), pairs in groupby(db.execute(_DRAWERS), lambda row: (row[0], row[3])):
            fields: dict[str, Any] = {key: value for _, key, value, _ in pairs}
            labels = {k: v for k, v in fields.items() if k in _LABELS}
            yield make.knowledge(
                f"{palace} {id_}",
                "/".join(str(fields[k]) for k in ("wing", "room") if fields.get(k)),
                fields.get("chroma:document"),
                id=id_,
                origin=palace,
                date=fields.get("filed_at"),
                **labels,
            )
    if "triples" in columns and "entities" in columns:
        for id_, subject, predicate, value, begins, ends, confidence, date, file in db.execute(_TRIPLES):
            yield make.fact(
                f"triples {id_}",
                (subject, str(predicate).replace("_", " "), value),
                id=id_,
                origin=file or "knowledge graph",
                date=date,
                category="relation",
                begins=begins,
                ends=ends,
                confidence=confidence,
            )
