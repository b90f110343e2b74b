"""Deletes: deletion vectors by root address, and delete predicates."""
