"""DOES table services, one file each: read the state, plan, commit events.

A service never imports Spark: its caller passes ``execute``, which runs kernel jobs.
"""
