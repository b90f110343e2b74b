"""DOES: the public table API, built on the ports.

An append: ``append`` locks ids, lets the caller write files, and passes the descriptors to
``committer``. A read: ``log`` folds the newest state, ``snapshot`` resolves it to files.

The way of a read:

``table/log/event_log`` folds a checkpoint and the newer events into a ``State``.
``core/timeline`` decides which groups are visible, and ``core/deletion`` which of their rows are
deleted. A read is one value (``core/requests/read_request``: version, columns, condition,
interval). ``table/scan`` (Arrow) or ``spark/reads/dataframe_scan`` (DataFrame) reads the files of
these groups that may have such rows, and ``data/parquet/segment_scan`` skips parts of a file by
their statistics. ``table/chosen_files`` chooses files for all of them, step by step
(``core/reads/selection``), and records each step: ``Scan.explain`` (``table/scan``,
``core/reads/selection``) shows the same choice as the read. A new way to leave files out
is one more step. A snapshot is a prefix of the log and never changes. All bytes are compared with
their checksums on the way (``data/parquet/descriptor``): the event holds the checksum of a file's
footer, and the footer holds those of the rest of the file.

A window (``table/windows``, ADR 0035) is read in the same way: its parts (``table/parts``) have
row filters that choose rows by address. The write of a row, its *origin*, is known by its
root (ADR 0046). A row was added since a version if its root was published since. A change feed
(``table/windows``) reads event by event; ``core/reads/effects`` decides all of these, and a new
family of events states there whether it changes rows. In a table with a primary key
``table/windows`` compares the rows of the keys in log files.

A read of a primary-key table merges the files of each bucket (``data/keyed/file_groups``), here
(``table/parts``) or in Spark's tasks (``spark/reads/keyed_scan``). Files with nothing to merge
are read by Spark's own reader.

The way of an upsert:

1. A table with a primary key (``core/tables/keyed_kind``) has a *file group* for each bucket of a
   time chunk: a chunk of the timeline. ``table/upsert`` splits rows by time chunk and bucket
   (``data/keyed/keyed_rows``), merges those of one key, and writes log files, sorted by key,
   under provisional ids. It takes no lock and needs no coordinator.
2. One event names them. The log gives them the next ids of their buckets, so root order is the
   order of completion, and a base overshadows its files like any other segment. A
   delete is an upsert of tombstones; updates and merges read one version and upsert, too
   (``table/changes``, ADR 0045).
3. Readers (``table/parts``) and compactions (``data/keyed/merge_job``) merge the sorted files of
   a bucket (``data/keyed/merging``) by the order of records, which is in the files (ADR 0036). So
   a repair needs no log for it (ADR 0042). Minor compaction merges log files into one, semi-major
   makes a base (``core/timeline``).
"""
