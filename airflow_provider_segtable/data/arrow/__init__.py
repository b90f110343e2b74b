"""Arrow: schemas, event times, predicates and SQL conditions."""
