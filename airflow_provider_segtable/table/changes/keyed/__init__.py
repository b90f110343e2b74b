"""Changes of primary-key tables."""
