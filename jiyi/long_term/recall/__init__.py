"""Recall: from a question to the records that answer it."""
