"""Parquet: footers, descriptors, row-group copies, readers and writers."""
