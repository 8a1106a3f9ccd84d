"""Forgetting on request: what was asked for goes with all that was derived from it."""
