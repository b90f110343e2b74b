"""Readers of many buckets: where they begin, whose turn it is, consumer groups, and their lag."""
