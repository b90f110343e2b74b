"""Code of Spark tasks: the only modules of ``spark`` that an executor imports.

1. Spark sends a task's function to an executor by its module's name, and the executor imports the
   module. So each function that is handed to Spark is defined here, never in a driver module.
2. An executor has Python, pyarrow and numpy, and this package as an archive. Modules here import
   ``core``, ``ports`` and kernels of ``data``; no PySpark, no object store client, no ZooKeeper.
   import-linter holds this, and ``tests/architecture`` imports them in such a Python.
"""
