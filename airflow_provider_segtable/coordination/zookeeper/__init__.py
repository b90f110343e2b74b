"""Coordination by ZooKeeper."""
