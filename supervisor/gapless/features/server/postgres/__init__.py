"""A PostgreSQL of one's own: its programs, the account it runs as, a data folder, its server."""
