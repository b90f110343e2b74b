"""Test support for segtable and its users: fakes and real servers.

It imports none of its modules, because each needs other packages (see the ``test`` extra).
"""
