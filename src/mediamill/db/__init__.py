"""The ground floor: the embedded server, the connection pool, migrations, notifications, named queries."""
