"""The log store's rules: one bucket of records between their append and their commit.

``bucket_log`` is the state, ``writing``, ``checkpointing`` and ``reading`` are its transitions;
``status`` is what others learn of it.
"""
