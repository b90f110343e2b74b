"""Writes of primary-key tables."""
