"""What of the log is next: claimed, read, cut into units."""
