"""Retention: chunks of the log, and the reasons that keep them."""
