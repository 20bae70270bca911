"""The next part of the log: claimed, read, cut into units."""
