"""Commands on coordination: locks and ZooKeeper."""
