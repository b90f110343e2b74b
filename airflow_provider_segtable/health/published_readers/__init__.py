"""Readers of other projects that open published tables, to compare what they see with the log."""
