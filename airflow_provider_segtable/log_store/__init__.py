"""Log stores: buckets of records between their append and their commit, and access to them."""
