"""Fakes, builders of small values and real servers, for several suites and the demo.

It imports none of its modules, because each needs other packages (see the ``test`` extra).
"""
