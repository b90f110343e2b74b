"""Protocols of storage, data files, coordination and the clock, without implementations.

The contract is in each module's docstring; ``tests/contract`` runs one suite over every adapter,
fakes included.
"""
