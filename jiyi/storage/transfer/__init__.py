"""Memory on the move: to a file and back (export, import), and from database to database (copy)."""
