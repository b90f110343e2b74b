"""Kinds of table in Arrow: incoming rows, merging, compaction jobs."""
