"""Commands over the indexes of a table."""
