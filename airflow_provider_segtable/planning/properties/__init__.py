"""What a table's properties set: the policy of compaction, retention, and where each value comes from."""
