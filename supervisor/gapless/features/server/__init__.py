"""A PostgreSQL server of our own: found or in a wheel, shared, ended with its last user."""
