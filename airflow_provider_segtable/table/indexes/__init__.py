"""Indexes: requested, fed by writers, copied into their own tables, looked into by readers."""
