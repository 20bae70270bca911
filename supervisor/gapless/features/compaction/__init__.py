"""The latest event of each key, beside the log."""
