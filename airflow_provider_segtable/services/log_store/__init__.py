"""Serving a table's log store: who serves which bucket, and when it is committed."""
