"""Lock rules: requests, grants, conflicts and id allocation."""
