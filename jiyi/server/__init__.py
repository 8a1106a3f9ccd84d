"""The server."""

__all__: list[str] = []
