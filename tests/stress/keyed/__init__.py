"""Many writers of the same keys of one table, with real processes and kills; see ``run``."""
