"""What a memory can do, in groups; `MemoryManager` is all of them together."""
