"""One process that gives many programs their memories: REST and what speaks other protocols, with keys."""

from jiyi.server.callers import EVERYTHING, Caller
from jiyi.server.keys import Key, Keys

__all__ = ["EVERYTHING", "Caller", "Key", "Keys"]
