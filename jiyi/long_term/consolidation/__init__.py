"""Consolidation: episodes about the same thing become knowledge."""
