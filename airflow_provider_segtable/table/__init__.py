"""DOES: the table as users of the library meet it, over the ports.

Way of an append: ``append`` locks ids, lets the caller write files, and hands the descriptors to
``committer``. Way of a read: ``log`` folds the newest state, ``snapshot`` resolves it to files.
"""
