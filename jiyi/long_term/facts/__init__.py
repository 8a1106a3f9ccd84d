"""Facts: statements about somebody or something, and how they change with time."""
