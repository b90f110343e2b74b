"""Routing: a key of a primary-key table is kept in one place of the whole table."""
