"""Test support for segtable and its users: fakes, faults, simulation, real servers.

It imports none of its modules, because each needs other packages (see the ``test`` extra).
"""
