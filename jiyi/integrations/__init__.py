"""Memory inside other frameworks: a file each, loaded where it is imported; what they share beside it."""
