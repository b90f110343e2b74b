"""Everything at once over one table, with real processes, ZooKeeper and Spark; see ``run``."""
