"""Repair: rebuild a log or a lost segment from the files that remain."""
