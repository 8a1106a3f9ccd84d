"""One process that gives many programs their memories: REST and what speaks other protocols, with keys."""

from jiyi.server.keys import LOCAL_CALLER, Caller, Key, Keys

__all__ = ["LOCAL_CALLER", "Caller", "Key", "Keys"]
