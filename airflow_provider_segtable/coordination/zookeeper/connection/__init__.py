"""Connections to ZooKeeper: options, kazoo clients and their links."""
