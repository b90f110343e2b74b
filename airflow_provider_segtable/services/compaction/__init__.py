"""Compaction: request a plan, acquire its locks, run its stages, commit the outputs."""
