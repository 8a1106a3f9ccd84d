"""Tests of verbs that cannot be done over HTTP, and why."""

from tables import read_tables

NOT_AT_A_SERVER = dict(read_tables(__file__)["not at a server"])
