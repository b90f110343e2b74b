"""Indexes: their kinds, their state and gaps, and the table that keeps the entries."""

DEFAULT_KIND = "column_stats"
"""The kind of an index that names none."""
