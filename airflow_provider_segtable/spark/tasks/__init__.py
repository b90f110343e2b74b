"""What runs in Spark's tasks: the only modules that an executor imports from this folder's parent.

1. A task's function reaches its executor as the name of its module, and the module is imported
   there. So each function that is handed to Spark stands here, and none in a module of the driver.
2. An executor has Python, pyarrow and numpy, and this package as an archive. Modules here import
   ``core``, ``ports`` and kernels of ``data``; no PySpark, no object store client, no ZooKeeper.
   import-linter holds this, and ``tests/architecture`` imports them in such a Python.
"""
