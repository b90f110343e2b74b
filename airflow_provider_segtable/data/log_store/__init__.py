"""Records of the log store in data files."""
