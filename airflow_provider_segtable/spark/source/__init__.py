"""The data source ``segtable``: Spark's reader, writer and streams, and its SQL, over a table.

``registration.register(spark)`` makes the name known. ``SegtableSource.java`` answers Spark's
interfaces by asking ``jvm_tables``, which reads and writes with the functions that the rest of
``spark`` has. So there is one way of reading and one of writing, whoever asks.
"""
