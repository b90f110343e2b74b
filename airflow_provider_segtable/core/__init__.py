"""DECIDES what is true: intervals, segments, events, the fold, overshadowing, rebase.

Rules of this layer:

1. Standard library only; no I/O, clock, randomness, logging or threads. Time, ids and random
   tokens come in as arguments.
2. Everything is a frozen value; a change is a new value.
3. A table is what its log says: ``state.apply`` is the only function that changes state.
"""
