"""What a memory knows, written for other programs."""

from jiyi.exporters.mem0 import Exported, export_mem0

__all__ = ["Exported", "export_mem0"]
