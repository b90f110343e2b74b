"""Adapters of ``ports.coordination``: memory, ZooKeeper, and an embedded ZooKeeper server.

Importing the package imports no adapter: ``address.connect`` loads the one that an address names.
"""
