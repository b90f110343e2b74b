"""Indexes in the standing disaster: their actors, their oracle, planted errors, named races."""
