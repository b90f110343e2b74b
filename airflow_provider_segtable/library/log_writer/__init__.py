"""Writing through a table's log store: ``TableLogWriter``, and the service beside it."""
