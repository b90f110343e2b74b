"""For tests of segtable and of what is built on it: fakes, faults, simulation, real servers.

Nothing is imported here: each module needs other packages (see the ``test`` extra).
"""
