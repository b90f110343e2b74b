"""Reads: their selection of files, and the effects of events on rows."""
