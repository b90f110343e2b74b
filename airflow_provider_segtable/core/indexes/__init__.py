"""Indexes: what can be indexed, what an index lacks, and the table that keeps its entries."""
