"""Locks in ZooKeeper: claims, grants, leases, and the append locks that a client keeps."""
