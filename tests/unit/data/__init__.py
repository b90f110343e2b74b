"""Rows: files, footers, ingest and the minor kernel."""
