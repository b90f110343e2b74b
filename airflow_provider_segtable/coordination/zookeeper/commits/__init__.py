"""Commits in ZooKeeper: the queue of committers, and the head of the log."""
