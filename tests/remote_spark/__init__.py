"""Spark elsewhere: Connect, clusters of other versions, YARN. Only ``make test-remote-spark``."""
