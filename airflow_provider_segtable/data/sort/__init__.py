"""Sorting segments in bounded memory: sample, scatter, gather."""
