"""The DAG runs of plans: emitted, outstanding, and linked from the pages."""
