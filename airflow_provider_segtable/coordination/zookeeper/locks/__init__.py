"""Locks in ZooKeeper: acquisitions, grants, leases, and the append locks that a client keeps."""
