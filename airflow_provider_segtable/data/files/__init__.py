"""Data file adapters for local directories and object stores."""
