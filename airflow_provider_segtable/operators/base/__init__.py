"""The operators' common base: Spark applications, rendered fields, authors of events."""
