"""Health checks: verify a table, and diagnose its operation."""
