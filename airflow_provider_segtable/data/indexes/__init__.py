"""Entries of indexes: computed from data files, and compared with conditions."""
