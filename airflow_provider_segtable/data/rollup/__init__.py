"""Rolling up rows: grouping codes, metrics and estimates."""
