"""Compaction plans and their life cycle."""
