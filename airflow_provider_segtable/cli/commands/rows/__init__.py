"""Commands on rows: ingest, delete, update, merge and scan."""
