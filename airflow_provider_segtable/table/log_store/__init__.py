"""The table's side of a log store: epochs, checkpoints, committed records read from files.

The way of a record through the log store:

1. A writer (``library/log_writer``, ADR 0053) begins an *epoch* of its buckets by one event
   (``table/log_store/checkpointing``, ADR 0052), from the end of the last committed snapshot.
   Writers of older epochs cannot commit any more. ``core/log_store`` decides each later step in
   a bucket as a pure transition of one frozen value, ``BucketLog``; ``log_store/buckets`` holds it
   under a lock, and wakes waiters.
2. An append names the offset that it expects (its sequence number), so a repetition is
   recognised, however late. Readers see it at once. A full bucket lets appends wait; only
   committed records are evicted.
3. The store is beside its writer, or in a process of its own. ``services/log_store`` makes its
   checkpoints, by policy (``core/log_store/bucket``) or on request;
   ``services/log_directory`` publishes where a bucket is served. External services
   (``library/log_server``) share the buckets by claims (``services/log_directory``). The service
   follows the table's log, too: it fences buckets whose epoch is over, and renews the lease on
   which the store answers.
4. A checkpoint cuts all buckets. ``table/log_store/checkpointing`` writes the records of the cut as
   files, in the columns of the version at which the store was opened, and commits them as an
   append or an upsert, whose event has their offsets (``core/log_store/manifest``). The log
   admits them only in the newest epoch, right after the committed records. ``services/log_store``
   reports the outcome to the store: ``committed`` lets it forget the records, and a bucket that the
   log refuses is given up.
5. The writer keeps uncommitted records (``library/log_records``). If the store fails or moves,
   it begins a new epoch, unless another writer has, and sends these records again.
6. A reader has a *position* (epoch, offset). If an epoch after its own began below its offset, it
   gets ``Reset``; if its records were evicted, ``Behind``: they are in the files of the
   checkpoints' events (``table/log_store/file_reader``), as long as the events are within
   retention (ADR 0049). A restore truncates the buckets, and resets readers.
7. Over Arrow Flight (``log_store/flight_store``) the same buckets are served to other processes.
   A writer sends unanswered records again, a reader goes on at its position.
8. A read with the live tail (``Table.scan(include_log=True)``, ``table/log_store/union_scan``)
   takes the status of the stores, then a version, then the records between the two
   (``table/log_store/tail``). It rehearses their checkpoint: the same code commits it over layers
   in memory (``storage/memory_storage``, ``data/open_files``), and the scan reads the
   result.
9. A follower (``table/log_store/tail``) reads these files up to the committed end, then the
   service's stream, and files again if the service has ended or evicted its next records;
   ``core/log_store/reading`` decides. A reader (``library/log_reader``) follows many buckets in
   turn: its share of a consumer group (``table/log_store/positions``). The group's positions are
   marks of a consumer (``core/log/families/consumer_events``).
10. In Spark, a batch read with the live tail sends the files in memory to its tasks
    (``spark/reads/keyed_scan``). A stream's sink runs a store in the driver, and checkpoints each
    micro-batch once (``spark/writes/stream``); a stream that reads has positions as offsets
    (``spark/source/log_stream``), and its tasks read files and services
    (``spark/tasks/log_reading``).
11. A repair after lost events begins an epoch above all epochs that can have existed
    (``core/log/families/repair_events``), so that no earlier position stands for other records.
    ``health/table_checks`` verifies ranges and the offsets in files. The simulation has stores,
    writers and readers beside all other processes (``tests/simulation/log_store``), and ``make
    stress-log-store`` kills real ones.
12. Airflow asks the services for a checkpoint (``operators/checkpoint``, ``library/log_stores``),
    and waits by one verdict (``planning/log_lag``) until a table or a consumer group has caught up
    (``sensors/log_store_lag``, ``triggers/log_store``).
"""
