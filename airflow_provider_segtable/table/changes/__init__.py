"""Deletes, updates and merges of rows.

The way of a delete:

1. A request (``core/requests/change_request``) is checked when it is made.
   ``table/changes/run_change`` carries it out with a row engine: ``table/changes/arrow_engine``,
   or ``spark/writes/spark_engine``. The engine finds the matching rows in one snapshot, and their
   root addresses: the places where they were first written, which never change. A dry run ends
   here, with the counts.
2. ``table/changes/row_change`` writes the addresses as deletion vectors (``data/vector_file``).
   Rows that an update or merge inserts are written as in an append, under a lock; a delete needs
   no lock.
3. One event names the vectors and the inserted rows. No compaction has to wait or retry: each
   output records the event through which deletes are applied in it (``deletes_applied_through``,
   on disk ``purged``), and readers apply later deletes with a row filter (``data/row_filter``).
   If another change touched one of the same roots, the author compares rows
   (``core/log/families/change_events``, ``table/changes/row_change``).
4. The next compaction that rewrites the rows leaves the deleted ones out; deleted rows are a
   reason for the planner to compact. Cleaning removes a vector once no present segment needs it.

An overwrite (``core/requests/overwrite``, ``table/changes/run_change``) takes the same way. It
names whole segments by metadata, and the log refuses it if another overwrite of the same time
came first (ADR 0026).
"""
