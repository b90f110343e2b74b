"""What a table keeps: schema, rollup specification, metrics and clustering."""
