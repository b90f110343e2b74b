"""``segtable demo``: the main job, end to end, told as it happens.

``command`` (options) starts ``processes`` (the keeper), which starts the *story* in a process of
its own; the story tells its steps (``story``) over ``flights`` (the data), ``writers`` (the Spark
application that appends), ``minor_runs`` (Airflow and what it runs) and ``comparison``.
"""
