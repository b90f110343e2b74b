"""Deletion vector files, and row filters that apply them."""
