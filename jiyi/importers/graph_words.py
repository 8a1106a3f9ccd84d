"""How facts represent a knowledge graph; imports nothing, since the MCP server must start fast."""

SPEAKER = "knowledge graph"  # of the facts that the graph tools keep; they never supersede each other
NOTE = "note"  # the predicate of an observation
TYPE = "entityType"  # the predicate of an entity's type
