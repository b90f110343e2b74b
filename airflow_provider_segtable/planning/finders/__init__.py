"""How the candidates of each kind of plan are found: one module a kind.

How to add a kind of plan:

1. One file in ``core/log/``: a subclass of ``Plan`` (of ``GroupPlan`` if it replaces adjacent
   groups of a chunk). Its class attributes are the kind's name, rank, patience and priority. Its
   methods return its claim, its lock, its admission, its steps, the balance of its outputs, and
   its encoding. mypy and the abstract methods name the missing ones.
2. One file in ``planning/finders/``: a ``Finder`` whose ``FINDER`` instance finds the kind's
   candidates, and makes the plans that users ask for. The kind names this module (``planned_in``).
   If the policy can turn the kind off, the finder names the field (``switch``).
3. One entry in ``KINDS`` of ``core/log/plan_kinds``.

The log, the locks, the planner, the services, all commands, the doctor and the DAG factory then
handle it. ``tests/unit/services/toys/`` has two examples, and ``test_toy_kinds.py`` takes them
from request to completion. A kind whose work is no rewrite of rows also needs a step beside
``Rewrite`` (as ``BuildIndex`` of index builds) and its case in ``services/compaction``. A plan
over a whole table is found by ``Finder.in_table``. An older segtable refuses plans of the new
kind by name, and with them the table.
"""
