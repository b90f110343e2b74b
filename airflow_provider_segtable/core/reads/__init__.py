"""Reads of what happened between two versions: added rows, and changes."""
