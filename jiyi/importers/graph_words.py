"""How facts name what a knowledge graph holds; imports nothing, for a server of tools has to start fast."""

__all__ = ["BY", "NOTE", "TYPE"]

BY = "knowledge graph"
"""The speaker of facts that were kept through the graph; of these several always stand side by side."""

NOTE = "note"
"""The predicate of an observation."""

TYPE = "entityType"
"""The predicate of an entity's type."""
