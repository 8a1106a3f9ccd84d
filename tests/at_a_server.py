"""Tests of verbs that cannot be done over HTTP, and why."""

NOT_AT_A_SERVER: dict[str, str] = {}
