"""An embedded ZooKeeper server for trials and tests."""
