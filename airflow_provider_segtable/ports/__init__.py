"""Protocols only: what segtable asks of storage, data files, coordination and the clock.

Each contract stands in its protocol's docstring; ``tests/contract`` runs one suite over every
adapter, fakes included.
"""
