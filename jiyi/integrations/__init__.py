"""Memory inside other frameworks: one file each, loaded when imported, and what they share."""
