"""At least once: calls of handlers whose effects are outside the database."""
