"""``make demo``: the main job, end to end, told as it happens.

``__main__`` (options) starts ``demo_processes`` (the keeper), which starts ``story_process``; that
tells its steps (``story``) over ``flights`` (the data), ``writers`` (the Spark application that
appends), ``minor_runs`` (Airflow and what it runs) and ``comparison``.
"""
