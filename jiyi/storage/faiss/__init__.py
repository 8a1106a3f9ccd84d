"""Approximate search of the vectors in a SQLite file. Needs the extra ``jiyi[faiss]``."""

from jiyi.storage.faiss.codes import UserCodes
from jiyi.storage.faiss.vectors import FaissVectors

__all__ = ["FaissVectors", "UserCodes"]
