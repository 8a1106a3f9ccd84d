"""One process that gives many programs their memories: REST and what speaks other protocols, with keys."""

from jiyi.server.callers import LOCAL_CALLER, Caller
from jiyi.server.keys import Key, Keys

__all__ = ["LOCAL_CALLER", "Caller", "Key", "Keys"]
