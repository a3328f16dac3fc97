"""Alembic's folder: `env.py` is run by Alembic, `versions/` has one file a change of the tables."""
