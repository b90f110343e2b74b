"""Jobs that write segments: appends, and minor compaction."""
