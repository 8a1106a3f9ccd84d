"""PostgreSQL with pgvector: rows, words and vectors on a server. Needs the extra ``jiyi[postgres]``."""

from jiyi.storage.postgres.database import PostgresDatabase
from jiyi.storage.postgres.vectors import PostgresVectors

__all__ = ["PostgresDatabase", "PostgresVectors"]
