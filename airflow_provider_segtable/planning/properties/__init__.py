"""Settings from a table's properties: compaction policy, retention, and their origins."""
