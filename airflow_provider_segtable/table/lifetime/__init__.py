"""The beginning and the end of a table."""
