"""The page: an HTTP API over a lake's tables, and the static files that draw it."""
