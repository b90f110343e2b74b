"""Publishing: versions of a table in other table formats, and the files that their readers need.

The way of a publication:

1. After its commit, and outside of the turn, ``table/committer`` leaves the version to
   ``table/publishing/after_commit``: the background of the process (``table/background``) publishes
   what waits (``table/backlog``) by ``table/publishing/publisher``. The table's properties name the
   formats and the lag (``planning/properties``). Any failure is one warning; the commit has landed.
   ``Table.publish`` publishes in its call, and raises.
2. ``table/publishing/publisher`` reads the *target*, the published table of one format in the
   table's root (``formats/format``), from the version on that this process knows
   (``table/publications``).
3. ``table/publishing/revising`` compares it with the log: by the chunks that changed since
   (``core/publishing``), if a state with the files of the published version is at hand, otherwise
   by the keys of all files. A target of another table, or of a log that was rebuilt, is published
   anew in full.
4. Of the files that differ, ``data/publishing`` reads the footers and finds the positions of
   hidden rows. The target puts the next version, unless another publisher has put one of this
   number: then the publisher reads the target again.
5. If a cleaning has dropped the version meanwhile, the newest one is published after it. A
   cleaning reads the targets before it deletes anything (``table/publishing/targets``). If the
   table was dropped, the format switched off, or files that the version needs were removed, the
   publisher takes the version back. A damaged target is published over (``Target.remains``).
6. The planner's run in Airflow makes up for missing publications (``services/publishing``,
   ``operators/plan``). A task publishes at once (``operators/publish``); a sensor waits until all
   commits before a time are published (``sensors/published``, ``triggers/published``, by
   ``table/publishing/publisher``).
7. ``health/publish_check`` reads a published version as others do, by the libraries that are
   installed (``health/published_readers``: one adapter each, in a registry by format), and
   compares rows and the checksum of each column (``data/row_checksum``) with the log's version of
   that event.
"""
