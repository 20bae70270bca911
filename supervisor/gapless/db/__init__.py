"""gapless's access to PostgreSQL: connections, named queries, migrations, an embedded server."""
