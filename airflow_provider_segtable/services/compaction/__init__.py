"""Compaction: request a plan, take its locks, run its stages, publish."""
