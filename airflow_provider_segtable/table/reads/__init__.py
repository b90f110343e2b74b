"""Reads of a table: snapshots and scans."""
