"""Alembic's migrations of the store, run by mqlab itself when a store is opened."""
