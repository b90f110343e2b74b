"""Tests of the target for Apache Iceberg."""
