"""Summaries of sets of values: hashes, counts of distinct values, filters."""
