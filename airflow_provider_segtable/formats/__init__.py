"""Other table formats: a version of a table, published so that their readers read it in place."""
