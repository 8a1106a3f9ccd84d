"""Forgetting on request: records go with everything derived from them."""
