"""Importers: exports and databases of other programs, recognised by their content, become records."""
