"""How gapless speaks to PostgreSQL: connections, named queries, migrations, an embedded server."""
