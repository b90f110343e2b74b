"""Indexing: build what the indexes of a table lack, piece by piece."""
