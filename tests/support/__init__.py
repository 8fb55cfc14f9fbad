"""What several tests need and no single one owns: reference tables, real data, models, a PostgreSQL server, skips."""
