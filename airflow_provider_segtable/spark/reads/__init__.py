"""Reading tables as DataFrames: files, schemas, predicates, deleted rows."""
