"""The memory as tools of the Model Context Protocol: `jiyi mcp`, and ``/mcp`` of the server."""
