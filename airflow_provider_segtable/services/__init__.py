"""DOES table services, one file each: plan in, events out, over the ports.

A service never imports Spark: it is given ``execute``, which runs kernel jobs somewhere.
"""
