"""Search in memory: the rows, words and vectors of one user at a time. No I/O."""
