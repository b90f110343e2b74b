"""Table definitions: schema, rollup specification, metrics and clustering.

How to add a kind of table:

The rule by which a table keeps rows is its *kind*: append, rollup, primary key (ADR 0022). Code
asks the kind, and never which kind it is. A new one is a file for each layer, and a line in each
registry:

1. ``core/tables/``: a frozen dataclass with the settings and the methods of ``TableKind``
   (``table_kind.py``), and its ``decoded`` in ``KINDS`` (``table_kinds.py``). Its ``encoded``
   writes ``kind`` and its settings under its name.
2. ``data/table_kinds.py``: the methods of ``ArrowKind``, and a line in ``ARROW_KINDS``. Executors
   import this file: Arrow, numpy and kernels only.
3. ``spark/table_kinds.py``: the methods of ``SparkKind``, and a line in ``SPARK_KINDS``.
4. Options of ``segtable table create`` in ``cli/input/``; its JSON in ``FORMAT.md``.

If a kind records deletes in a way that ``DeletionForm`` does not have yet, the type checker names
the places that have to apply it.
"""
