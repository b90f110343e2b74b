"""DECIDES what is true: intervals, segments, events, the fold, overshadowing, admission.

Rules of this layer:

1. Standard library only; no I/O, clock, randomness, logging or threads. Time, ids and random
   tokens come in as arguments.
2. Every value is immutable; a change returns a new value.
3. The log determines a table's state: only ``state.apply`` changes it.
"""
