"""DOES: the public table API, built on the ports.

An append: ``append`` locks ids, lets the caller write files, and passes the descriptors to
``committer``. A read: ``log`` folds the newest state, ``snapshot`` resolves it to files.
"""
