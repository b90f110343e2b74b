"""Examples that are run as tests."""
