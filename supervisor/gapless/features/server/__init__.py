"""gapless's own PostgreSQL server: found or from a wheel, shared, ended with its last user."""
