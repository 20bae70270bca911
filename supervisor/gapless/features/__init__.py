"""Features: a room each, which the core does not know."""
