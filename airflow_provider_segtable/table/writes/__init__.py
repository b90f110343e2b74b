"""Appends: incoming rows become first-generation segments."""
