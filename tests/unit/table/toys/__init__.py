"""A kind of index that only tests have, with a setting: ``prefixes`` of ``width`` characters."""
