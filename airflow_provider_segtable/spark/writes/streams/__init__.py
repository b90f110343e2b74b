"""Streams into tables: each micro-batch once, by an append or through the log store."""
