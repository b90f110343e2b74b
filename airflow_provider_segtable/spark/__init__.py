"""Spark: ingest, compaction kernels in tasks, scans. Every entry is a function of a session.

Rows enter through ``ingest``, files are merged by kernels that ``distribution`` sends to tasks, and
``scan`` reads the visible files natively. Executors need Python, pyarrow and this package; only the
driver uses the log and ZooKeeper.
"""
