"""Segments: descriptors, atomic update groups, overshadowing, replacement and invariants."""
