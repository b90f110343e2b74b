"""A soak of the log store: writers, services and readers in processes of their own, and faults."""
