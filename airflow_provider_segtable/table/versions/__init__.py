"""Versions of a table: its history, tags and restores."""
