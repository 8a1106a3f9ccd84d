"""The forget gate: what no longer matters goes, by rules."""
