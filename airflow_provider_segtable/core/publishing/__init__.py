"""What a version of a table is in terms that other table formats have: files, and rows to hide."""
