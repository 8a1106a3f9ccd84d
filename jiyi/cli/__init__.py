"""The verbs at a prompt."""
