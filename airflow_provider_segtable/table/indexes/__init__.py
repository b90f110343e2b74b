"""Indexes: requested, fed by writers, copied into their own tables, and read by readers.

The way of an index:

1. ``table/index_lifecycle`` makes the index's own table (``core/indexes/index_state``) and
   commits ``IndexRequested``. From then on the state records the lacks of the index
   (``core/indexes/index_state``, ADR 0047).
2. ``table/committer`` asks ``table/indexes/feeding`` for the entries of every event that
   publishes files (``data/indexes/entries``), computed from the rows that the writer kept, or
   else from the files (``table/indexes/new_rows``, ADR 0076). Few entries are in the event itself,
   many in files that it names (``table/indexes/index_entries``, ADR 0051).
   ``table/indexes/feeding`` joins the former in files, and copies all into the index's log. For a
   ``record_index`` the committer asks ``table/indexes/routing``: the entries of the written keys
   are decided with all known ones (``data/indexes/records``), which a process that goes on writing
   has in memory (``data/indexes/known_entries``), and losing records are corrected in the same
   event (ADR 0050). A
   compaction that cuts time chunks corrects records that were committed meanwhile
   (``table/indexes/routing``).
3. Entries about older files are built by a plan of kind ``index`` (``core/log/index_plan``, found
   by ``planning/finders/index``). ``services/indexing`` builds piece by piece (``core/catch_up``),
   with one ``IndexBuilt`` each; a time-out is a pause. At the end it corrects keys with several
   rows, if the index knows records. The planner requests the indexes of the policy
   (``planning/properties``).
4. Readers look entries up, in the index's table and in feeds above it
   (``table/indexes/index_entries``; kept by ``table/entry_cache``), and leave files out
   by them (``table/chosen_files``, ``data/indexes/entries``). A file without a trusted entry is
   opened. ``core/reads/selection`` decides which files of records that hide each other may be left
   out.
5. The tables of indexes are kept up with their table (``table/index_lifecycle``): planned,
   compacted, cleaned, verified, examined and dropped. A cleaning deletes the entries about the
   files that it deletes (``table/indexes/index_entries``).

A new kind of index:

1. ``core/indexes/``: a class as in ``index_kind``, derived from ``AboutFiles`` if its entries are
   about files. Its settings are fields declared by ``setting``.
2. ``data/indexes/``: the class that it names (``made_by``), with the methods of ``EntryKind``.
3. ``KINDS`` in ``core/indexes/index_state``: its place among the others.
4. The guide to indexes: a row of its table of kinds.

Requests, options, properties, JSON, feeds, builds and reads need no change;
``tests/unit/table/test_toy_index_kind.py`` adds one.
"""
