"""Findings about the operation of a table."""
