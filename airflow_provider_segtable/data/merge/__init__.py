"""Merging the rows of primary-key tables, and their buckets."""
