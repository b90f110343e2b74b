"""Kinds of table in Spark: incoming rows and merged reads, on the driver."""
