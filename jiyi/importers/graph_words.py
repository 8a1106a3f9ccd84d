"""How facts represent a knowledge graph; imports nothing, since the MCP server must start fast."""

SPEAKER = "knowledge graph"
"""The speaker of facts that the graph tools keep; they never supersede each other."""

NOTE = "note"
"""The predicate of an observation."""

TYPE = "entityType"
"""The predicate of an entity's type."""
