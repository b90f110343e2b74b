"""Indexes: their kinds, their state and gaps, and the table that keeps the entries."""
