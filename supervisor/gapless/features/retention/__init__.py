"""Retention: chunks of the log, and what keeps them."""
