"""The log store's rules: one bucket of records between their append and their commit.

``bucket`` has the state of a bucket and its changes by writers and checkpoints. ``reading`` has
the answers to readers, and the status that others learn. ``manifest`` has positions, and the
record in the table's log. ``assignment`` decides which service has a bucket, ``tenure`` for how
long it is left to its newest writer.
"""
