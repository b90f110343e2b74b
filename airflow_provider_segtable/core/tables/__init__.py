"""Table definitions: schema, rollup specification, metrics and clustering."""
