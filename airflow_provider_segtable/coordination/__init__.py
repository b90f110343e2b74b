"""Adapters of ``ports.coordination``: memory, ZooKeeper, and an embedded ZooKeeper server.

Nothing here is imported with the package: ``address.connect`` loads what an address asks for.
"""
